"""A process that waits until it is ended. In a room, which gives it descriptors, it begins one more session."""

import os
import sys
import time

if __name__ == "__main__":
    time.sleep(0.5)
    first = os.getpid()
    if sys.argv[1:] and sys.argv[1].isdigit() and os.fork() == 0:
        os.setsid()
        while os.getppid() == first:
            time.sleep(0.1)
        sys.exit(0)
    time.sleep(600)
