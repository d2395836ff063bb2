import AuthFlow

/// The sign-in page of an emulated ForgeRock server: a script that walks the tree and shows its callbacks, like the real page. A
/// client without JavaScript receives a page without a form.
enum ForgeRockPage {
    /// - Parameter authenticateURL: The URL to which the steps of the tree are posted.
    static func body(authenticateURL: String) -> String {
        """
        <main></main>
        <script>
        const query = new URLSearchParams(location.search);
        const tree = query.get("service");
        const main = document.querySelector("main");
        async function walk(step) {
          const choice = !step.authId && tree ? "?authIndexType=service&authIndexValue=" + encodeURIComponent(tree) : "";
          const response = await fetch("\(authenticateURL)" + choice, {
            method: "POST",
            headers: {"Content-Type": "application/json", "Accept-API-Version": "resource=2.1, protocol=1.0"},
            body: JSON.stringify(step)
          });
          const next = await response.json();
          if (next.tokenId) {
            const goto = new URL(query.get("goto"));
            if (goto.origin === location.origin) location.replace(goto);
          } else if (next.authId) {
            ask(next);
          } else {
            main.textContent = next.message;
          }
        }
        function ask(step) {
          const form = document.createElement("form");
          const fields = [];
          for (const callback of step.callbacks) {
            if (!callback.input) continue;
            const label = document.createElement("label");
            label.textContent = (callback.output.find(value => value.name === "prompt") || {}).value || callback.type;
            const field = document.createElement("input");
            field.name = callback.input[0].name;
            field.type = callback.type === "PasswordCallback" ? "password" : "text";
            label.append(field);
            form.append(label);
            fields.push([callback, field]);
          }
          const button = document.createElement("button");
          button.textContent = "Next";
          form.append(button);
          form.addEventListener("submit", event => {
            event.preventDefault();
            for (const [callback, field] of fields) callback.input[0].value = field.value;
            walk(step);
          });
          main.replaceChildren(form);
        }
        walk({});
        </script>
        """
    }
}
