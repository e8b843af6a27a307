#include "aggregation/reduce/screen.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <vector>

#include "aggregation/reduce/float_kernels.h"
#include "core/tensor/file.h"

namespace fedqueue {
namespace {

constexpr std::size_t piece_bytes = 256 * 1024;  // stays in the second-level cache

std::string number(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

// What a value that is not finite is, in words.
std::string kind(double value) {
  return std::isnan(value) ? "NaN" : value > 0 ? "infinite" : "negative infinite";
}

// Σ value² of one tensor.
Result<double> squares_of(const tensor::Reader& reader, const tensor::TensorInfo& tensor,
                          std::vector<std::byte>& piece) {
  const std::size_t element = size_of(tensor.dtype);
  double sum = 0;
  for (std::uint64_t begin = tensor.begin; begin < tensor.end; begin += piece.size()) {
    const std::span<std::byte> bytes =
        std::span(piece).first(std::min<std::uint64_t>(piece.size(), tensor.end - begin));
    if (Status read = reader.read(begin, bytes); !read) return read.error();
    const std::size_t elements = bytes.size() / element;
    double part = sum_of_squares(tensor.dtype, bytes.data(), elements);
    if (!std::isfinite(part)) {
      if (const auto i = first_not_finite(tensor.dtype, bytes.data(), elements)) {
        const double value = load_element(tensor.dtype, bytes.data(), *i);
        return Error{Code::not_finite,
                     "screen an update: tensor '" + tensor.name + "' is " + kind(value) +
                         " at element " + std::to_string((begin - tensor.begin) / element + *i),
                     "Training diverged: lower the learning rate or clip gradients."};
      }
      part = std::numeric_limits<double>::max();  // finite, but too large to be squared
    }
    sum += part;
  }
  return std::min(sum, std::numeric_limits<double>::max());
}

}  // namespace

Result<ScreenReport> screen_update(const std::filesystem::path& update,
                                   const tensor::Manifest& model, const ScreenLimits& limits) {
  const Result<tensor::Reader> reader = tensor::Reader::open(update);
  if (!reader) return within("screen an update", reader.error());
  const tensor::Manifest& manifest = reader->manifest();
  const std::vector<std::string> sentences = differences(model, manifest);
  if (!sentences.empty()) {
    return Error{
        Code::model_mismatch,
        "screen an update: its structure is not the model's: " + tensor::summary(sentences),
        "Train the model the run was started with; `fedclient model init` shows it."};
  }

  ScreenReport report;
  report.bytes = manifest.file_bytes();
  std::vector<std::byte> piece(piece_bytes);
  double squares = 0;
  for (const tensor::TensorInfo& tensor : manifest.tensors) {
    report.elements += tensor.elements();
    if (!is_float(tensor.dtype)) continue;
    const Result<double> part = squares_of(*reader, tensor, piece);
    if (!part) return part.error();
    if (is_control(tensor)) continue;
    squares = std::min(squares + *part, std::numeric_limits<double>::max());
  }
  report.norm = std::sqrt(squares);
  if (limits.norm_max > 0 && report.norm > limits.norm_max) {
    return Error{Code::aggregation,
                 "screen an update: its norm " + number(report.norm) +
                     " is above the run's limit " + number(limits.norm_max),
                 "Lower the learning rate or the local steps, or ask the operator for a higher "
                 "limit."};
  }
  return report;
}

}  // namespace fedqueue
