"""Two files of tests run side by side (`-n 2`): each has one thread."""

import torch

torch.set_num_threads(1)
