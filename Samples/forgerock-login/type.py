#!/usr/bin/env python3
"""Runs a program in a pseudoterminal and types an answer at each prompt, as a user would:

    type.py 'PROMPT=ANSWER' 'PROMPT=ANSWER' -- PROGRAM ARGUMENTS
"""
import os, pty, sys

split = sys.argv.index("--")
answers = [pair.split("=", 1) for pair in sys.argv[1:split]]
process, terminal = pty.fork()
if process == 0:
    os.execv(sys.argv[split + 1], sys.argv[split + 1:])
said = ""
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
    if answers and said.endswith(answers[0][0] + ": "):
        os.write(terminal, (answers.pop(0)[1] + "\n").encode())
        said = ""
sys.exit(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]))
