"""The contract suite of tasks: does a task keep the rules that stations, gates and learners rely on?"""
