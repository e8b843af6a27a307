#include "aggregation/reduce/step_files.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "aggregation/reduce/float_kernels.h"
#include "core/base/assert.h"
#include "core/base/text.h"

namespace fedqueue {
namespace {

constexpr std::size_t digest_piece_bytes = 1u << 20;
constexpr std::size_t no_place = static_cast<std::size_t>(-1);

std::string state_name(const StateVector& vector, const tensor::TensorInfo& tensor) {
  return std::string(vector.name) + "/" + tensor.name;
}

// The structure of the state file of such a model.
Result<tensor::Manifest> lay_out_state(std::span<const StateVector> vectors,
                                       const tensor::Manifest& model, const Plan& plan) {
  std::vector<tensor::TensorInfo> tensors;
  for (const StateVector& vector : vectors) {
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
      if (!plan.tensors[i].parameter) continue;
      const tensor::TensorInfo& tensor = model.tensors[i];
      const auto dtype =
          tensor.dtype == tensor::DType::f64 ? tensor::DType::f64 : tensor::DType::f32;
      tensors.push_back({state_name(vector, tensor), dtype, tensor.shape, 0, 0});
    }
  }
  return tensor::lay_out(std::move(tensors));
}

void fill(tensor::DType dtype, double value, std::byte* out, std::size_t elements) {
  if (dtype == tensor::DType::f64) {
    std::fill_n(reinterpret_cast<double*>(out), elements, value);
  } else {
    std::fill_n(reinterpret_cast<float*>(out), elements, static_cast<float>(value));
  }
}

}  // namespace

Result<StepFiles> StepFiles::open(const ReduceRequest& request, const tensor::Manifest& model,
                                  const Plan& plan) {
  StepFiles files;
  files.prepared_.step = request.step;
  files.output_path_ = request.state_output;
  if (!request.step.has_state()) return files;
  Result<tensor::Manifest> layout = lay_out_state(files.vectors(), model, plan);
  if (!layout) return within("lay out the server optimiser's state", layout.error());
  const auto index = layout->index();
  for (const StateVector& vector : files.vectors()) {
    std::vector<std::size_t>& places = files.places_.emplace_back(model.tensors.size(), no_place);
    for (std::size_t i = 0; i < model.tensors.size(); ++i) {
      if (plan.tensors[i].parameter) places[i] = index.at(state_name(vector, model.tensors[i]));
    }
  }
  if (!request.state_input.empty()) {
    if (Status opened = files.open_input(request.state_input, *layout); !opened) {
      return opened.error();
    }
  }
  files.prepared_.momentum_due = momentum_due(request.step, files.pushes_);
  for (const auto& [key, value] : request.metadata) layout->metadata[key] = value;
  layout->metadata[optimizer_key] = server_optimizer_name(request.step.optimizer);
  layout->metadata[pushes_key] = std::to_string(files.pushes_ + 1);
  Result<tensor::Writer> writer = tensor::Writer::create(request.state_output, std::move(*layout));
  if (!writer) return writer.error();
  files.layout_ = writer->manifest();
  files.output_.emplace(std::move(*writer));
  return files;
}

Status StepFiles::open_input(const std::filesystem::path& path, const tensor::Manifest& layout) {
  Result<tensor::Reader> reader = tensor::Reader::open(path);
  if (!reader) return within("read the server optimiser's state", reader.error());
  const tensor::Manifest& manifest = reader->manifest();
  const auto optimizer = manifest.metadata.find(optimizer_key);
  if (optimizer != manifest.metadata.end() &&
      optimizer->second != server_optimizer_name(prepared_.step.optimizer)) {
    return {};  // the run's optimiser was changed: what the other remembered means nothing to it
  }
  const std::vector<std::string> sentences = differences(layout, manifest);
  const auto pushes = manifest.metadata.find(pushes_key);
  const auto count =
      pushes == manifest.metadata.end() ? std::nullopt : parse_integer(pushes->second);
  if (!sentences.empty() || !count || *count < 0) {
    return Error{
        Code::model_mismatch,
        "read the server optimiser's state '" + path.string() + "': it is not of this model: " +
            (sentences.empty() ? "it has no count of its steps" : tensor::summary(sentences)),
        "Restore the run directory from a backup."};
  }
  pushes_ = *count;
  const auto index = manifest.index();
  for (const std::vector<std::size_t>& places : places_) {
    std::vector<std::uint64_t>& in_input = input_places_.emplace_back(places.size());
    for (std::size_t i = 0; i < places.size(); ++i) {
      if (places[i] == no_place) continue;
      in_input[i] = manifest.tensors[index.at(layout.tensors[places[i]].name)].begin;
    }
  }
  input_.emplace(std::move(*reader));
  return {};
}

Status StepFiles::read(const Segment& segment, std::size_t vector, std::byte* out) const {
  const tensor::TensorInfo& tensor = layout_.tensors[places_[vector][segment.tensor]];
  if (!input_) {
    const StateBegin begin = vectors()[vector].begin;
    FEDQUEUE_ASSERT(begin != StateBegin::model);
    const double tau = prepared_.step.tau;
    fill(tensor.dtype, begin == StateBegin::tau_squared ? tau * tau : 0, out, segment.elements);
    return {};
  }
  const std::size_t element = size_of(tensor.dtype);
  return input_->read(input_places_[vector][segment.tensor] + segment.first * element,
                      {out, segment.elements * element});
}

Status StepFiles::place(const Segment& segment, std::size_t vector, const std::byte* values) const {
  const tensor::TensorInfo& tensor = layout_.tensors[places_[vector][segment.tensor]];
  const std::size_t element = size_of(tensor.dtype);
  const bool finite = std::isfinite(sum_of_squares(tensor.dtype, values, segment.elements));
  if (const auto i =
          finite ? std::nullopt : first_not_finite(tensor.dtype, values, segment.elements)) {
    return Error{Code::not_finite,
                 "reduce: the server optimiser's state '" + tensor.name +
                     "' is NaN or infinite at element " + std::to_string(segment.first + *i),
                 "Look for a facility whose training diverges, or lower the server's learning "
                 "rate; a norm cap keeps such updates out."};
  }
  return output_->place(tensor.begin + segment.first * element,
                        {values, segment.elements * element});
}

Result<std::optional<ReduceState>> StepFiles::finish() {
  if (!output_) return std::optional<ReduceState>();
  const Result<tensor::Reader> reader = tensor::Reader::open(output_path_);
  if (!reader) return within("read the server optimiser's state again", reader.error());
  std::vector<std::byte> buffer(digest_piece_bytes);
  for (std::uint64_t at = 0; at < layout_.data_bytes; at += buffer.size()) {
    const auto piece =
        std::span(buffer).first(std::min<std::uint64_t>(buffer.size(), layout_.data_bytes - at));
    if (Status read = reader->read(at, piece); !read) return read.error();
    output_->digest(piece);
  }
  const Result<tensor::WrittenFile> written = output_->finish();
  if (!written) return written.error();
  return std::optional(ReduceState{written->sha256, written->bytes, !has_input()});
}

}  // namespace fedqueue
