// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace weft {

// `weft explain --fault RUN`: what the ranks of a run did last, who waited for
// whom, and who never came, from the flight records in RUN or RUN/flight; as
// text for people, or as JSON with the last marks of every rank. Throws
// UserError where there are none.
std::string explain_fault(const std::string& run, bool as_json);

}  // namespace weft
