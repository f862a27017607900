#include "base/text.h"
#include "search/search.h"

#include <ATen/core/Tensor.h>
