import torch


def model(:
    pass
