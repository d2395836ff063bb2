import AuthFlow

/// The page that receives an authorization response in a fragment. Browsers do not send fragments, so the script of the page
/// posts the response to the same URL; the page has no other function.
enum FragmentPage {
    static var response: TransportResponse {
        let nonce = Base64URL.encode(HostServices.systemRandomBytes(16))
        return TransportResponse(
            head: HTTPResponse(
                status: .ok,
                headerFields: [
                    .contentType: "text/html; charset=utf-8",
                    .cacheControl: "no-store",
                    .contentSecurityPolicy:
                        "default-src 'none'; script-src 'nonce-\(nonce)'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
                    .xContentTypeOptions: "nosniff",
                    StatusPage.referrerPolicy: "no-referrer",
                ]
            ),
            body: Array(html(nonce: nonce).utf8)
        )
    }

    private static func html(nonce: String) -> String {
        """
        <!doctype html>
        <html lang="en">
        <meta charset="utf-8">
        <title>One moment</title>
        <noscript>This sign-in needs JavaScript for its last step. Enable it and sign in again.</noscript>
        <script nonce="\(nonce)">
        const response = new URLSearchParams(location.hash.slice(1));
        history.replaceState(null, "", location.pathname);
        const form = document.createElement("form");
        form.method = "post";
        const fields = document.createDocumentFragment();
        for (const [name, value] of response) {
          const field = document.createElement("input");
          field.type = "hidden";
          field.name = name;
          field.value = value;
          fields.append(field);
        }
        // DOM clobbering: a field can shadow a method of the form, so no method is called on the form itself.
        Node.prototype.appendChild.call(form, fields);
        document.documentElement.appendChild(form);
        HTMLFormElement.prototype.submit.call(form);
        </script>
        </html>

        """
    }
}
