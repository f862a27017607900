// Moved: include "aten/call.h".
#pragma once
#include "aten/call.h"
