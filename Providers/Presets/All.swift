public import AuthFlow

extension ProviderPreset {
    /// This module's presets, sorted by title. No preset has been tested against the service itself; each preset cites
    /// its source.
    public static let all: [ProviderPreset] = [
        .amazonCognito, .apple, .auth0, .cloudentity, .gitLab, .google, .huggingFace, .keycloak, .mastodon,
        .microsoftEntra, .microsoftEntraMultitenant, .pingOne,
    ]
}
