"""The part of pynput that LeRobot uses: `keyboard.Listener` and `keyboard.Key`."""
