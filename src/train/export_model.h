// SPDX-License-Identifier: Apache-2.0
// From a checkpoint to the model's own files: its state_dict as safetensors, or
// a folder that Hugging Face's from_pretrained reads.
#pragma once

#include "checkpoint/checkpoint.h"
#include "train/trainer.h"

#include <cstdint>
#include <string>
#include <vector>

namespace weft {

// What a checkpoint keeps so that its model can be exported without its graph:
// a JSON object from every name of the model's state_dict to the checkpoint's.
std::string model_names(const Trainer& trainer);

// Writes exactly the model's state_dict: tied tensors under each of their
// names, no buffers that are not persistent. Gives what a person should know.
// Throws UserError.
std::vector<std::string> export_model(
    Checkpoint& checkpoint, const std::string& path);

// What the process that captures a model of Hugging Face says of it, and the
// tokenizer's files; both are kept in the folder of a run for export_folder.
void keep_description(const std::string& run, const std::string& description);
void keep_tokenizer(const std::string& run, const std::string& tokenizer_path);

// Writes what from_pretrained reads, by what the folder `run` keeps beside the
// checkpoint: weights, in several files with an index where they take more than
// `shard_bytes`, config.json, and what belongs to them. Throws UserError where
// the run is not of such a model, or the folder holds a model already.
std::vector<std::string> export_folder(
    Checkpoint& checkpoint,
    const std::string& run,
    const std::string& folder,
    int64_t shard_bytes);

}  // namespace weft
