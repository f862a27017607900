#include <ATen/core/Tensor.h>

#include "base/text.h"
#include "search/search.h"
