#!/usr/bin/env python3
"""Plays the user at a terminal whose browser is on another machine:

    paste.py PROGRAM ARGUMENTS

runs a login in a separate terminal, passes the URL that it prints to a browser that can reach the provider but not
this machine's other ports, and pastes a wrong URL followed by the browser's final URL. Prints the terminal's output,
and exits with the program's status.
"""
import importlib.util, os, pathlib, pty, re, sys

sample = pathlib.Path(__file__).resolve().parents[2] / "Samples/custom-user-agent/sign-in.py"
pages = importlib.util.spec_from_file_location("pages", sample)
pages_module = importlib.util.module_from_spec(pages)
sys.dont_write_bytecode = True
pages.loader.exec_module(pages_module)

process, terminal = pty.fork()
if process == 0:
    os.execv(sys.argv[1], sys.argv[1:])
said, pasted = "", False
while True:
    try:
        data = os.read(terminal, 1024)
    except OSError:  # The program has exited, which closes its terminal.
        break
    if not data:
        break
    text = data.decode(errors="replace").replace("\r", "")
    sys.stdout.write(text)
    sys.stdout.flush()
    said += text
    address = re.search(r"^(https?://\S+)\n", said, re.MULTILINE)
    if not pasted and address and "paste that page's URL here" in said:
        answer = pages_module.sign_in(address.group(1))
        os.write(terminal, (re.sub(r"state=[^&]*", "state=wrong", answer) + "\n").encode())
        os.write(terminal, f"  '{answer}' \n".encode())
        pasted = True
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
