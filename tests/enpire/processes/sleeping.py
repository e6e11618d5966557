"""A process that waits until it is ended. In a room, which gives it arguments, it begins one more session."""

import os
import sys
import time

if __name__ == "__main__":
    time.sleep(0.5)
    if len(sys.argv) > 1 and os.fork() == 0:
        os.setsid()
    time.sleep(600)
