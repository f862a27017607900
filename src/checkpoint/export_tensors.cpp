// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/export_tensors.h"

#include "base/error.h"
#include "checkpoint/tensor_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace weft {
namespace {

void write_all(
    TensorSource& source,
    const std::vector<ExportName>& names,
    const std::string& path) {
  std::vector<TensorFileEntry> entries;
  for (const ExportName& name : names) {
    entries.push_back({name.exported, source.type(name.name)});
  }
  // transformers asks which library the tensors are for.
  TensorFileWriter file(path, entries, {{"format", "pt"}});
  for (const ExportName& name : names) {
    file.write(read_whole(source, name.name));
  }
  file.finish();
}

}  // namespace

void export_tensors(
    TensorSource& source,
    const std::vector<ExportName>& names,
    const std::string& path) {
  const std::string aside = cat(path, ".partial-", getpid());
  try {
    write_all(source, names, aside);
    WEFT_CHECK_USER(
        std::rename(aside.c_str(), path.c_str()) == 0,
        "cannot write ",
        path,
        ": ",
        std::strerror(errno));
  } catch (...) {
    unlink(aside.c_str());
    throw;
  }
}

}  // namespace weft
