// SPDX-License-Identifier: Apache-2.0
// The extension weft._weft: types and functions of the C++ library under the
// same names. No decisions are made here.
#include "binding.h"

#include "aten/types.h"
#include "base/error.h"
#include "base/readable.h"
#include "capture/capture.h"
#include "capture/hollow.h"
#include "execute/allocation_watch.h"
#include "execute/evaluate.h"
#include "execute/initialise.h"
#include "execute/lockstep.h"
#include "execute/observed_memory.h"
#include "execute/replay.h"
#include "graph/graph.h"
#include "lower/lower.h"
#include "ops/op_def.h"
#include "plan/parallel.h"
#include "plan/plan.h"
#include "profile/profile.h"
#include "program/transfer.h"
#include "rewrite/training.h"

#include <ATen/ops/zeros.h>
#include <torch/csrc/utils/pybind.h>

#include <nlohmann/json.hpp>

namespace py = pybind11;

namespace weft {
namespace {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;
using Groups = std::vector<
    std::pair<std::map<std::string, double>, std::vector<std::string>>>;

std::vector<NamedTensor> named(const NamedTensors& pairs) {
  std::vector<NamedTensor> tensors;
  tensors.reserve(pairs.size());
  for (const auto& [name, tensor] : pairs) {
    tensors.push_back({name, tensor});
  }
  return tensors;
}

// A Recording as a `with` block.
class RecordingBlock {
 public:
  explicit RecordingBlock(std::function<std::unique_ptr<Recording>()> start)
      : start_(std::move(start)) {}
  void enter() { recording_ = start_(); }
  void exit() { recording_.reset(); }

 private:
  std::function<std::unique_ptr<Recording>()> start_;
  std::unique_ptr<Recording> recording_;
};

// A RecordingPause as a `with` block.
class PauseBlock {
 public:
  void enter() { pause_.emplace(); }
  void exit() { pause_.reset(); }

 private:
  std::optional<RecordingPause> pause_;
};

// By name, what makes a tensor of the batch that the step has written into as
// it is afterwards, a function of the batch by name; none where that takes
// more.
py::dict written_batch(const Capture& capture) {
  py::dict out;
  for (const Capture::WrittenBatch& each : capture.written_batch()) {
    if (!each.again) {
      out[py::str(each.name)] = py::none();
      continue;
    }
    out[py::str(each.name)] = py::cpp_function(
        [each](const std::map<std::string, at::Tensor>& batch) {
          std::vector<at::Tensor> inputs;
          for (const auto& [name, constant] : each.inputs) {
            inputs.push_back(name.empty() ? constant : batch.at(name).detach());
          }
          return replay(*each.again, inputs).front();
        });
  }
  return out;
}

void bind_capture(py::module_& module) {
  py::class_<PauseBlock>(module, "Pause")
      .def(py::init<>())
      .def("__enter__", &PauseBlock::enter)
      .def(
          "__exit__", [](PauseBlock& block, const py::args&) { block.exit(); });
  py::class_<RecordingBlock>(module, "Recording")
      .def("__enter__", &RecordingBlock::enter)
      .def("__exit__", [](RecordingBlock& block, const py::args&) {
        block.exit();
      });
  py::class_<Capture>(module, "Capture")
      .def(
          py::init([](std::string name, bool real, const Capture* earlier) {
            return std::make_unique<Capture>(
                std::move(name),
                real ? RecordMode::Real : RecordMode::Hollow,
                earlier);
          }),
          py::arg("name"),
          py::arg("real") = false,
          py::arg("earlier") = nullptr)
      .def("has_lasting_generators", &Capture::has_lasting_generators)
      .def(
          "record_init",
          [](Capture& capture) {
            return RecordingBlock([&] { return capture.record_init(); });
          },
          py::keep_alive<0, 1>())
      .def(
          "record_step",
          [](Capture& capture) {
            return RecordingBlock([&] { return capture.record_step(); });
          },
          py::keep_alive<0, 1>())
      .def(
          "begin_step",
          [](Capture& capture,
             const NamedTensors& parameters,
             const NamedTensors& buffers,
             const NamedTensors& batch,
             const NamedTensors& saved) {
            capture.begin_step(
                named(parameters), named(buffers), named(batch), named(saved));
          })
      .def_property_readonly(
          "real",
          [](Capture& capture) {
            return capture.recorder().mode() == RecordMode::Real;
          })
      .def("begin_backward", &Capture::begin_backward)
      .def(
          "push_module",
          [](Capture& capture, std::string path) {
            capture.recorder().push_module(std::move(path));
          })
      .def(
          "pop_module",
          [](Capture& capture) { capture.recorder().pop_module(); })
      .def(
          "fill_trunc_normal",
          [](Capture& capture,
             const at::Tensor& tensor,
             double mean,
             double deviation,
             double low,
             double high) {
            Node node;
            node.op = "weft.trunc_normal";
            node.args = {{mean}, {deviation}, {low}, {high}};
            capture.recorder().fill(tensor, std::move(node), "trunc_normal");
          })
      .def(
          "known_elements",
          [](Capture& capture,
             const at::Tensor& tensor) -> std::optional<at::Tensor> {
            const at::Tensor known = capture.recorder().known_elements(tensor);
            return known.defined() ? std::optional(known) : std::nullopt;
          })
      // None where they follow from parameters or random numbers.
      .def(
          "read_elements",
          [](Capture& capture,
             const at::Tensor& tensor) -> std::optional<at::Tensor> {
            const at::Tensor read = capture.recorder().read_elements(tensor);
            return read.defined() ? std::optional(read) : std::nullopt;
          })
      .def(
          "is_same_value",
          [](Capture& capture, const at::Tensor& one, const at::Tensor& other) {
            return capture.recorder().is_same_value(one, other);
          })
      // `place()` gives the line of the model that is running.
      .def(
          "set_place",
          [](Capture& capture, py::function place) {
            capture.recorder().set_place([place = std::move(place)] {
              const py::gil_scoped_acquire acquire;
              return place().cast<std::string>();
            });
          })
      // (whether the step made it, its elements where they follow from
      // constants alone).
      .def(
          "left",
          [](Capture& capture, const at::Tensor& tensor)
              -> std::pair<bool, std::optional<at::Tensor>> {
            const Capture::Left left = capture.left(tensor);
            if (!left.again) {
              return {left.is_made, std::nullopt};
            }
            if (capture.recorder().mode() == RecordMode::Real) {
              return {true, tensor.detach().clone()};
            }
            return {true, replay(*left.again, left.known).front()};
          })
      .def(
          "is_constant",
          [](Capture& capture, const at::Tensor& tensor) {
            return capture.is_constant(tensor);
          })
      .def(
          "replace_buffer",
          [](Capture& capture,
             const std::string& name,
             const at::Tensor& tensor) {
            capture.replace_buffer(name, tensor);
          })
      // The storage that the refusal is about, as untyped_storage()._cdata.
      .def_property_readonly(
          "refused_storage",
          [](Capture& capture) {
            return reinterpret_cast<uintptr_t>(
                capture.recorder().refused_storage());
          })
      .def_property_readonly(
          "refusal",
          [](Capture& capture) -> std::optional<std::pair<bool, std::string>> {
            const auto& refusal = capture.recorder().refusal();
            if (!refusal) {
              return std::nullopt;
            }
            return std::make_pair(refusal->needs_values, refusal->message);
          })
      .def_property_readonly("written_batch", &written_batch)
      .def(
          "finish",
          [](Capture& capture,
             const at::Tensor& loss,
             const std::optional<std::pair<std::string, Groups>>& optimizer,
             const std::vector<std::pair<std::string, std::string>>& modules) {
            std::optional<OptimizerDescription> description;
            if (optimizer) {
              description.emplace();
              description->kind = optimizer->first;
              for (const auto& [options, parameters] : optimizer->second) {
                description->groups.push_back({options, parameters});
              }
            }
            std::vector<Module> list;
            for (const auto& [path, type] : modules) {
              list.push_back({path, type});
            }
            return capture.finish(loss, description, std::move(list));
          },
          py::arg("loss"),
          py::arg("optimizer"),
          py::arg("modules"));
}

using OptionalTensors = std::vector<std::optional<at::Tensor>>;

const Function& function_of(const Graph& graph, const std::string& name) {
  const Function* function = find_function(graph, name);
  WEFT_CHECK_USER(function, "the graph has no function ", name);
  return *function;
}

std::vector<at::Tensor> tensors_of(const OptionalTensors& inputs) {
  std::vector<at::Tensor> tensors;
  tensors.reserve(inputs.size());
  for (const auto& input : inputs) {
    tensors.push_back(input ? input->detach() : at::Tensor());
  }
  return tensors;
}

void bind_graph(py::module_& module) {
  py::class_<Graph>(module, "Graph")
      .def_readonly("name", &Graph::name)
      .def("__str__", [](const Graph& graph) { return print(graph); })
      .def("verify", [](const Graph& graph) { verify(graph); })
      .def_static(
          "parse",
          [](const std::string& text, const std::string& source) {
            return parse_graph(text, source);
          },
          py::arg("text"),
          py::arg("source") = "<text>")
      .def(
          "inputs",
          [](const Graph& graph, const std::string& name) {
            std::vector<std::pair<std::string, std::string>> inputs;
            for (const Input& input : function_of(graph, name).inputs) {
              inputs.emplace_back(
                  std::string(weft::name(input.kind)), input.keys.front());
            }
            return inputs;
          })
      .def("outputs", [](const Graph& graph, const std::string& name) {
        std::vector<std::pair<std::string, std::string>> outputs;
        for (const Output& output : function_of(graph, name).outputs) {
          outputs.emplace_back(
              std::string(weft::name(output.kind)), output.key);
        }
        return outputs;
      });
  module.def("profile_json", [](const Graph& graph) {
    return to_json(profile(graph)).dump();
  });
  module.def("constant", &constant_tensor);
  // Zeros of a type as the graph writes it, "i64[4, 128]".
  module.def("zeros", [](const std::string& text) {
    const TensorType type = parse_type(text);
    return at::zeros(type.sizes, scalar_type_of(type.dtype));
  });
  // A tensor like this one, whose elements nobody can read: who tries gets
  // `why`.
  module.def(
      "placeholder", [](const at::Tensor& tensor, const std::string& why) {
        return make_placeholder(type_of(tensor), why);
      });
  module.def("is_hollow", &is_hollow);
  module.def(
      "replay",
      [](const Graph& graph,
         const std::string& name,
         const OptionalTensors& inputs) {
        OptionalTensors outputs;
        for (at::Tensor& output :
             replay(function_of(graph, name), tensors_of(inputs))) {
          outputs.push_back(
              output.defined() ? std::optional(std::move(output))
                               : std::nullopt);
        }
        return outputs;
      });
  module.def(
      "evaluate",
      [](const Graph& graph,
         const std::string& name,
         const OptionalTensors& inputs,
         uint64_t seed,
         int64_t step) {
        return evaluate(
            function_of(graph, name), tensors_of(inputs), {seed, step});
      },
      py::arg("graph"),
      py::arg("name"),
      py::arg("inputs"),
      py::arg("seed") = 0,
      py::arg("step") = 0);
  // What all ranks compute together under a plan, as `evaluate` gives it.
  module.def(
      "run_lockstep",
      [](const Graph& graph,
         const std::string& plan,
         const OptionalTensors& inputs,
         uint64_t seed,
         int64_t step) {
        return run_lockstep(
            lower(graph, parse_plan(plan, "plan")),
            step_of(graph),
            tensors_of(inputs),
            {seed, step});
      },
      py::arg("graph"),
      py::arg("plan"),
      py::arg("inputs"),
      py::arg("seed") = 0,
      py::arg("step") = 0);
  // The bytes that a rank takes from others in a step, by kind of transfer.
  module.def(
      "wire_bytes",
      [](const Graph& graph, const std::string& plan, int64_t rank) {
        std::map<std::string, int64_t> bytes;
        for (const WireBytes& one :
             wire_bytes_by_kind(lower(graph, parse_plan(plan, "plan")), rank)) {
          bytes[std::string(name(one.kind))] += one.bytes;
        }
        return bytes;
      },
      py::arg("graph"),
      py::arg("plan"),
      py::arg("rank") = 0);
  // The plan that words stand for, as text.
  module.def("expand", [](const Graph& graph, const std::string& words) {
    return print(expand(parse_parallel(words, "words"), graph));
  });
  // The program as text.
  module.def("lower", [](const Graph& graph, const std::string& plan) {
    return print(lower(graph, parse_plan(plan, "plan")));
  });
  module.def(
      "initialise",
      [](const Graph& graph, uint64_t seed) { return initialise(graph, seed); },
      py::arg("graph"),
      py::arg("seed"));
  // Fills a tensor with the part of a parameter or buffer that begins there.
  module.def(
      "initialise_piece",
      [](const Graph& graph,
         uint64_t seed,
         bool is_buffer,
         const std::string& key,
         const Dims& start,
         const Dims& whole,
         const at::Tensor& into) {
        std::vector<Piece> box;
        for (size_t i = 0; i < start.size(); ++i) {
          box.push_back(
              {start[i], into.size(static_cast<int64_t>(i)), whole[i]});
        }
        Initialiser(graph, seed)
            .fill(
                is_buffer ? OutputKind::Buffer : OutputKind::Parameter,
                key,
                box,
                into);
      });
  // For every node that has any: its line, the bytes predicted, those measured.
  module.def(
      "scratch_bytes",
      [](const Graph& graph,
         const std::string& name,
         const OptionalTensors& inputs) {
        const Function& function = function_of(graph, name);
        const std::vector<int64_t> measured =
            measure_scratch(function, tensors_of(inputs));
        std::vector<std::tuple<std::string, int64_t, int64_t>> rows;
        for (size_t i = 0; i < measured.size(); ++i) {
          const Node& node = function.nodes[i];
          if (node.phase == Phase::Optimizer) {
            continue;
          }
          const int64_t predicted = scratch_bytes_of(function, node);
          if (predicted != 0 || measured[i] != 0) {
            rows.emplace_back(print(function, node), predicted, measured[i]);
          }
        }
        return rows;
      });
}

// Each gives a new graph.
void bind_training(py::module_& module) {
  module.def("clip_gradients", [](Graph graph, double max_norm) {
    clip_gradients(graph, max_norm);
    return graph;
  });
  module.def("scale_loss", [](Graph graph) {
    scale_loss(graph);
    return graph;
  });
  module.def("skip_bad_loss", [](Graph graph) {
    skip_bad_loss(graph);
    return graph;
  });
  module.def("drop_gradient_outputs", [](Graph graph) {
    drop_gradient_outputs(graph);
    return graph;
  });
  module.def("accumulate_gradients", [](const Graph& graph, int64_t count) {
    AccumulationGraphs graphs = accumulate_gradients(graph, count);
    return std::make_pair(
        std::move(graphs.accumulate), std::move(graphs.update));
  });
}

void bind_watch(py::module_& module) {
  py::class_<AllocationWatch>(module, "AllocationWatch")
      .def(py::init<>())
      .def_property_readonly("live_bytes", &AllocationWatch::live_bytes)
      .def_property_readonly("peak_bytes", &AllocationWatch::peak_bytes)
      .def("reset_peak", &AllocationWatch::reset_peak)
      .def("close", &AllocationWatch::close);
}

// pybind's own would pass the bytes of a message on as they are, and Python
// raises another error for those that are no UTF-8.
void bind_errors(py::module_& module) {
  // Never given back: Python may be gone before the statics are.
  static PyObject* const user_error =
      py::exception<UserError>(module, "UserError").release().ptr();
  py::register_exception_translator([](std::exception_ptr thrown) {
    try {
      std::rethrow_exception(thrown);
    } catch (const UserError& error) {
      py::set_error(user_error, readable(error.what()).c_str());
    } catch (const InternalError& error) {
      py::set_error(PyExc_RuntimeError, readable(error.what()).c_str());
    }
  });
}

}  // namespace
}  // namespace weft

PYBIND11_MODULE(_weft, module) {
  module.attr("__version__") = WEFT_VERSION;
  weft::bind_errors(module);
  weft::observe_kernels();
  weft::bind_graph(module);
  weft::bind_capture(module);
  weft::bind_training(module);
  weft::bind_watch(module);
  weft::bind_search(module);
  weft::bind_state(module);
  weft::bind_trainer(module);
  weft::bind_command_line(module);
}
