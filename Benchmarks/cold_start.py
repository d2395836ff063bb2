#!/usr/bin/env python3
"""Measures the command line tool as whole processes, together with other tools, and exits with 1 when a bound is exceeded.

    cold_start.py PATH/TO/authflow

The programs run in turn, so that whatever else the machine does hits all alike. `gh auth token` (Debian: gh) and oidc-agent's
oidc-token (Debian: oidc-agent-cli) are measured if they are installed; oidc-token runs without an agent, so that
only its start is measured.
"""

import json, os, pathlib, shutil, statistics, subprocess, sys, tempfile, time

ROUNDS = 60
tool = os.path.realpath(sys.argv[1])
failures = []


def run(command, environment):
    start = time.perf_counter()
    ended = subprocess.run(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    return (time.perf_counter() - start) * 1000, ended.returncode, ended.stderr


def peak_memory(command, environment):
    """In MB. Python's own children begin with Python's memory, so another program starts them (Debian: time)."""
    if not os.path.exists("/usr/bin/time"): return "?"
    with tempfile.NamedTemporaryFile("r") as report:
        subprocess.run(["/usr/bin/time", "-f", "%M", "-o", report.name, *command], env=environment, capture_output=True)
        return f"{int(report.read().split()[-1]) / 1024:.1f} MB"


def provider(*options):
    process = subprocess.Popen([tool, "dev-idp", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, process.stdout.readline().strip()


def bound(value, limit, what):
    if value > limit: failures.append(f"{what}: {value:.1f}, not {limit:.1f} or less")
    return f"{limit:g}"


with tempfile.TemporaryDirectory() as work:
    servers = [provider(), provider("--token-lifetime", "0")]
    try:
        folder = pathlib.Path(work)

        def profile(issuer, store):
            agent = {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": [issuer]}
            return {"provider": "oidc", "issuer": issuer, "client_id": "authflow-demo", "store": store,
                    "scopes": ["openid", "profile", "email", "offline_access"], "user_agent": agent}

        (_, lasting), (_, short) = servers
        profiles = {"file": profile(lasting, {"name": "file", "directory": "plain"}),
                    "encrypted": profile(lasting, {"name": "encrypted-file", "directory": "encrypted", "key_file": "key"}),
                    "short": profile(short, {"name": "file", "directory": "short"})}
        config = str(folder / "authflow.json")
        pathlib.Path(config).write_text(json.dumps({"profiles": profiles}))
        environment = dict(os.environ, PASSWORD="wonderland", GH_TOKEN="gho_not_a_token")

        def command(*words, profile="file"): return [tool, *words, "--config", config, "--profile", profile]

        for name in profiles:
            _, status, talk = run(command("login", profile=name), environment)
            if status: sys.exit(f"cold_start: the sign-in failed: {talk}")
        commands = {
            "/bin/true": ["/bin/true"],
            "authflow token": command("token"),
            "authflow status --json": command("status", "--json"),
            "authflow token, encrypted-file": command("token", profile="encrypted"),
            # Its tokens have expired when they arrive.
            "authflow token, refreshed": command("token", profile="short"),
            "authflow login, headless": command("login"),
        }
        if shutil.which("gh"): commands["gh auth token"] = ["gh", "auth", "token"]
        if shutil.which("oidc-token"): commands["oidc-token, no agent"] = ["oidc-token", "none"]
        times = {name: [] for name in commands}
        for _ in range(ROUNDS):
            for name, words in commands.items():
                duration, status, talk = run(words, environment)
                if status and name.startswith("authflow"): sys.exit(f"cold_start: {name} failed: {talk}")
                times[name].append(duration)
        median = {name: statistics.median(values) for name, values in times.items()}
        base = median["/bin/true"]
        ratios = {"authflow token": 6, "authflow status --json": 8, "authflow token, encrypted-file": 8}
        print("| program | median | beside /bin/true | bound | peak memory |\n|---|---|---|---|---|")
        for name, value in median.items():
            limit = bound(value / base, ratios[name], f"{name} beside /bin/true") if name in ratios else ""
            print(f"| {name} | {value:.1f} ms | {value / base:.1f} | {limit} | {peak_memory(commands[name], environment)} |")
        if "gh auth token" in median:
            ratio = median["authflow token"] / median["gh auth token"]
            print(f"\nauthflow token beside gh auth token: {ratio:.2f} (bound {bound(ratio, 0.2, 'authflow token beside gh')})")
        for name, limit in {"authflow token, refreshed": 25, "authflow login, headless": 30}.items():
            # Milliseconds depend on the machine, and are shown without bounds.
            print(f"{name}: {median[name]:.1f} ms (wanted: {limit})")
        size = os.path.getsize(tool) / 1e6
        print(f"size of the program: {size:.0f} MB")
    finally:
        for process, _ in servers:
            process.terminate()
            process.wait()
for failure in failures: print(f"cold_start: {failure}", file=sys.stderr)
sys.exit(bool(failures))
