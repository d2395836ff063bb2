"""The user of the soak tests, who signs in with the headless user agent at the tool's development provider."""

import contextlib, json, os, pathlib, subprocess


@contextlib.contextmanager
def provider(tool, leeway):
    """Runs the provider, which accepts a refresh token again for the given number of seconds. Yields its issuer."""
    process = subprocess.Popen([tool, "dev-idp", "--refresh-leeway", str(leeway)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               text=True)
    try: yield process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def configure(folder, issuer, store):
    """Writes the user's configuration file. Returns its path."""
    path = pathlib.Path(folder, "authflow.json")
    path.write_text(json.dumps({"profiles": {"soak": {
        "provider": "oidc", "issuer": issuer, "client_id": "authflow-demo", "scopes": ["openid", "offline_access"], "store": store,
        "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": [issuer]},
    }}}))
    return path


def environment(home):
    """The environment of the user's commands."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("XDG_")}
    return dict(inherited, PASSWORD="wonderland", HOME=str(home))
