// SPDX-License-Identifier: Apache-2.0
// weft export: the model of a checkpoint as files that others read.
#include "base/error.h"
#include "cli/commands.h"
#include "cli/number_flags.h"
#include "train/export_model.h"
#include "train/run_folder.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

namespace weft {
namespace {

namespace fs = std::filesystem;

struct ExportFlags {
  std::string from;
  std::string output;
  std::string folder;
  int64_t shard_bytes = 5'000'000'000;
};

// `from` is a checkpoint or the folder of a run, whose last whole one counts.
std::string checkpoint_at(const std::string& from) {
  WEFT_CHECK_USER(
      fs::is_directory(from),
      from,
      " is no folder; give the --output of weft train, or a step-N in it");
  if (fs::exists(fs::path(from) / kIndexFile)) {
    return from;
  }
  const RunStart start = find_start(from, true);
  WEFT_CHECK_USER(
      start.checkpoint,
      from,
      " holds no checkpoint; give the --output of weft train, or a step-N in "
      "it");
  for (const std::string& note : start.notes) {
    std::cerr << "weft: " << note << "\n";
  }
  return *start.checkpoint;
}

void run_export(const ExportFlags& flags) {
  WEFT_CHECK_USER(
      flags.output.empty() != flags.folder.empty(),
      "give -o FILE.safetensors, or --hf FOLDER");
  Checkpoint checkpoint(checkpoint_at(flags.from));
  const std::string run =
      fs::absolute(checkpoint.path()).lexically_normal().parent_path().string();
  const std::vector<std::string> notes =
      flags.folder.empty()
          ? export_model(checkpoint, flags.output)
          : export_folder(checkpoint, run, flags.folder, flags.shard_bytes);
  for (const std::string& note : notes) {
    std::cerr << "weft: " << note << "\n";
  }
  std::cout << "wrote the model of " << checkpoint.path() << ", after step "
            << checkpoint.step() << ", to "
            << (flags.folder.empty() ? flags.output : flags.folder) << "\n";
}

}  // namespace

void add_export_command(CLI::App& app) {
  const auto flags = std::make_shared<ExportFlags>();
  CLI::App* command = app.add_subcommand(
      "export", "Write the model of a checkpoint as files that others read");
  command->group(kStepGroup);
  command
      ->add_option(
          "RUN", flags->from, "The --output of weft train, or a step-N in it")
      ->required()
      ->type_name("");
  command
      ->add_option(
          "-o,--output",
          flags->output,
          "A .safetensors file: exactly the model's state_dict")
      ->type_name("FILE");
  command
      ->add_option(
          "--hf",
          flags->folder,
          "A folder for Hugging Face's from_pretrained, of a model of theirs")
      ->type_name("FOLDER");
  command
      ->add_option(
          "--shard-bytes",
          flags->shard_bytes,
          "With --hf: begin another file rather than make one larger")
      ->transform(whole_number(kMemoryBytes))
      ->type_name("N");
  command->footer(R"(Examples:
  weft export run -o model.safetensors
  weft export run/step-200 --hf my-model)");
  command->callback([flags] { run_export(*flags); });
}

}  // namespace weft
