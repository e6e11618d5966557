"""A process that waits until it is ended."""

import time

if __name__ == "__main__":
    time.sleep(600)
