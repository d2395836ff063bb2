#!/usr/bin/env python3
"""Measures complete runs of the command line tool and of other tools, and exits with 1 when a bound is exceeded.

    cold_start.py PATH/TO/authflow

The programs run alternately, so that other load on the machine affects all of them equally. `gh auth token` (Debian: gh) and oidc-agent's
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
    """The peak memory in MB. Child processes of Python inherit its memory at first, so another program starts them (Debian: time)."""
    if not os.path.exists("/usr/bin/time"): return "?"
    with tempfile.NamedTemporaryFile("r") as report:
        subprocess.run(["/usr/bin/time", "-f", "%M", "-o", report.name, *command], env=environment, capture_output=True)
        return f"{int(report.read().split()[-1]) / 1024:.1f} MB"


def provider(*options):
    process = subprocess.Popen([tool, "dev-idp", *options], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    return process, process.stdout.readline().strip()


def bound(value, limit, what):
    if value > limit: failures.append(f"{what}: {value:.1f} exceeds the bound of {limit:.1f}")
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
            # This profile's tokens have already expired when they are issued.
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
        ratios = {"authflow token": 5.5, "authflow status --json": 6, "authflow token, encrypted-file": 6}
        print("| program | median | relative to /bin/true | bound | peak memory |\n|---|---|---|---|---|")
        for name, value in median.items():
            limit = bound(value / base, ratios[name], f"{name} relative to /bin/true") if name in ratios else ""
            print(f"| {name} | {value:.1f} ms | {value / base:.1f} | {limit} | {peak_memory(commands[name], environment)} |")
        if "gh auth token" in median:
            ratio = median["authflow token"] / median["gh auth token"]
            print(f"\nauthflow token relative to gh auth token: {ratio:.2f} (bound {bound(ratio, 0.2, 'authflow token relative to gh')})")
        for name, limit in {"authflow token, refreshed": 20, "authflow login, headless": 20}.items():
            # Absolute times depend on the machine, so they have no bounds.
            print(f"{name}: {median[name]:.1f} ms (goal: {limit})")
        size = os.path.getsize(tool) / 1e6
        print(f"size of the program: {size:.0f} MB")
    finally:
        for process, _ in servers:
            process.terminate()
            process.wait()
for failure in failures: print(f"cold_start: {failure}", file=sys.stderr)
sys.exit(bool(failures))
