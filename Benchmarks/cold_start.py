#!/usr/bin/env python3
"""Times `authflow token` with a fresh token in a file, whole process, beside /bin/true and oidc-agent's oidc-token.

    cold_start.py PATH/TO/authflow

The programs run in turn, so that whatever else the machine does hits all alike. oidc-token (Debian: oidc-agent-cli) is asked
without an agent to talk to, so that only its start is measured: with one it would take longer.
"""

import json, os, pathlib, shutil, statistics, subprocess, sys, tempfile, time

tool = sys.argv[1]
with tempfile.TemporaryDirectory() as work:
    provider = subprocess.Popen([tool, "dev-idp"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        issuer = provider.stdout.readline().strip()
        config = pathlib.Path(work, "authflow.json")
        config.write_text(json.dumps({"profiles": {"bench": {
            "provider": "oidc", "issuer": issuer, "client_id": "authflow-demo",
            "store": {"name": "file", "directory": "store"},
            "user_agent": {"name": "headless", "username": "alice", "password": {"env": "PASSWORD"}, "origins": [issuer]},
        }}}))
        environment = dict(os.environ, PASSWORD="wonderland")
        subprocess.run([tool, "login", "--config", config], env=environment, check=True, capture_output=True)
        commands = {"/bin/true": ["/bin/true"], "authflow token": [tool, "token", "--config", str(config)]}
        if shutil.which("oidc-token"): commands["oidc-token, no agent"] = ["oidc-token", "none"]
        times = {name: [] for name in commands}
        for _ in range(60):
            for name, command in commands.items():
                start = time.perf_counter()
                subprocess.run(command, env=environment, capture_output=True)
                times[name].append((time.perf_counter() - start) * 1000)
        base = statistics.median(times["/bin/true"])
        print("| program | median | beside /bin/true |\n|---|---|---|")
        for name, values in times.items():
            print(f"| {name} | {statistics.median(values):.1f} ms | {statistics.median(values) / base:.1f} |")
    finally:
        provider.terminate()
        provider.wait()
