#include "base/text.h"
#include "graph/mesh.h"

#include <vector>
