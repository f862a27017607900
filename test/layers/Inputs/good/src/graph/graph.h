#include <vector>

#include "base/text.h"
#include "graph/mesh.h"
