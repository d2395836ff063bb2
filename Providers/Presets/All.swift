public import AuthFlow

extension ProviderPreset {
    /// Every preset of this library, by title. None was tried against the service itself: each says where it is from.
    public static let all: [ProviderPreset] = [
        .amazonCognito, .apple, .auth0, .cloudentity, .gitLab, .google, .huggingFace, .keycloak, .mastodon,
        .microsoftEntra, .microsoftEntraMultitenant, .pingOne,
    ]
}
