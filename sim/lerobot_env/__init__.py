"""Tasks as environments of LeRobot; `--env.discover_packages_path=sim.lerobot_env` makes LeRobot import them."""
