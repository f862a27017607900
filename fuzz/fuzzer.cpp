// SPDX-License-Identifier: Apache-2.0
// The program of one reader, which WEFT_READER names, for libFuzzer.
#include "mutate.h"
#include "reader.h"

#include <cstddef>
#include <cstdint>
#include <cstring>

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t most);

namespace {

const weft::FuzzedReader& reader() {
  static const weft::FuzzedReader& found = weft::fuzzed_reader(WEFT_READER);
  return found;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  reader().read({reinterpret_cast<const char*>(data), size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(
    uint8_t* data, size_t size, size_t most, unsigned int seed) {
  // libFuzzer's own mutations know the dictionary and what was compared.
  if (!reader().is_text || seed % 3 == 0) {
    return LLVMFuzzerMutate(data, size, most);
  }
  std::minstd_rand random(seed);
  const std::string text =
      weft::mutated({reinterpret_cast<const char*>(data), size}, most, random);
  std::memcpy(data, text.data(), text.size());
  return text.size();
}
