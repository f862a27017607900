#include "graph/graph.h"

#include <ATen/core/Tensor.h>
