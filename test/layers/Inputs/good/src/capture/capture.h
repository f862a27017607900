#include <ATen/core/Tensor.h>

#include "graph/graph.h"
