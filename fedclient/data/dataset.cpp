#include "fedclient/data/dataset.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>
#include <utility>

#include "core/base/assert.h"

namespace fedqueue {
namespace {

// Asks for all pages of these samples at once. Read one after the other, as they are touched, they
// come from a disk tens of times slower, with the neighbours that nobody asked for.
void announce(const Dataset& dataset, std::span<const std::int64_t> indices) {
  static const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  for (std::size_t i = 0; i < indices.size();) {
    std::size_t next = i + 1;
    while (next < indices.size() && indices[next] == indices[next - 1] + 1) ++next;
    const auto begin = reinterpret_cast<std::uintptr_t>(dataset.sample(indices[i]));
    const std::uintptr_t end = begin + (next - i) * dataset.sample_bytes();
    const std::uintptr_t aligned = begin / page * page;
    // Only a hint: what it does not bring is read when it is touched.
    (void)::madvise(reinterpret_cast<void*>(aligned), end - aligned, MADV_WILLNEED);
    i = next;
  }
}

template <typename Token>
void copy_tokens(const Dataset& dataset, std::span<const std::int64_t> indices, Batch& batch) {
  const std::int64_t length = dataset.input.elements();
  batch.targets.resize(indices.size() * static_cast<std::size_t>(length));
  batch.values.resize(batch.targets.size() * sizeof(std::int64_t));
  std::byte* values = batch.values.data();
  std::int64_t* targets = batch.targets.data();
  for (const std::int64_t index : indices) {
    const std::byte* at = dataset.sample(index);
    for (std::int64_t i = 0; i <= length; ++i, at += sizeof(Token)) {
      Token raw = 0;
      std::memcpy(&raw, at, sizeof raw);
      const std::int64_t token = raw;
      if (i < length) {
        std::memcpy(values, &token, sizeof token);
        values += sizeof token;
      }
      if (i > 0) *targets++ = token;
    }
  }
}

Batch gather_tokens(const Dataset& dataset, std::span<const std::int64_t> indices) {
  Batch batch;
  batch.input = dataset.input;
  batch.dtype = tensor::DType::i64;
  batch.samples = static_cast<std::int64_t>(indices.size());
  if (dataset.dtype == tensor::DType::u16) {
    copy_tokens<std::uint16_t>(dataset, indices, batch);
  } else {
    copy_tokens<std::int32_t>(dataset, indices, batch);
  }
  return batch;
}

Error bad_sample(std::int64_t index, const std::string& why) {
  return {Code::data, "read the dataset: sample " + std::to_string(index) + " " + why,
          "Correct the dataset; fedclient data check DIR looks through all of it."};
}

// Nothing is branched on in the loop, so that it is fast on every batch.
bool all_finite(std::span<const std::byte> values) {
  constexpr std::uint32_t kExponent = 0x7f800000u;
  std::uint32_t broken = 0;
  for (std::size_t at = 0; at < values.size(); at += sizeof(float)) {
    std::uint32_t bits = 0;
    std::memcpy(&bits, values.data() + at, sizeof bits);
    broken |= static_cast<std::uint32_t>((bits & kExponent) == kExponent);
  }
  return broken == 0;
}

bool all_words(std::span<const std::int64_t> tokens, std::int64_t vocabulary) {
  return std::all_of(tokens.begin(), tokens.end(),
                     [&](std::int64_t token) { return token >= 0 && token < vocabulary; });
}

// `indices` are those the batch was gathered from.
Status check_values(const Dataset& dataset, const Batch& batch,
                    std::span<const std::int64_t> indices) {
  const std::span<const std::byte> values(batch.values);
  if (batch.dtype == tensor::DType::f32) {
    if (all_finite(values)) return {};
    const std::size_t bytes = values.size() / indices.size();
    std::size_t i = 0;
    while (all_finite(values.subspan(i * bytes, bytes))) ++i;
    return bad_sample(indices[i], "has a value that is not finite");
  }
  if (batch.dtype != tensor::DType::i64) return {};
  // The targets are the tokens but for each sample's first, which the sample before it predicts.
  const std::size_t length = batch.targets.size() / std::max<std::size_t>(indices.size(), 1);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    std::int64_t first = 0;
    std::memcpy(&first, values.data() + i * length * sizeof first, sizeof first);
    const std::span<const std::int64_t> rest(batch.targets.data() + i * length, length);
    if (!all_words(rest, dataset.classes) || !all_words({&first, 1}, dataset.classes)) {
      return bad_sample(indices[i],
                        "has a token outside the vocabulary of " + std::to_string(dataset.classes));
    }
  }
  return {};
}

// All but the values.
Batch empty_batch(const Dataset& dataset, std::span<const std::int64_t> indices) {
  Batch batch;
  batch.input = dataset.input;
  batch.dtype = dataset.dtype;
  batch.samples = static_cast<std::int64_t>(indices.size());
  batch.values.resize(indices.size() * dataset.sample_bytes());
  batch.targets.reserve(indices.size());
  for (const std::int64_t index : indices)
    batch.targets.push_back(dataset.labels[static_cast<std::size_t>(index)]);
  return batch;
}

}  // namespace

Dataset Dataset::of_bytes(InputShape input, std::vector<std::uint8_t> values,
                          std::vector<std::int32_t> labels) {
  Dataset dataset;
  dataset.input = std::move(input);
  auto kept = std::make_shared<const std::vector<std::uint8_t>>(std::move(values));
  dataset.values = std::as_bytes(std::span(*kept));
  dataset.owner = std::move(kept);
  dataset.labels = std::move(labels);
  FEDQUEUE_ASSERT(dataset.values.size() == dataset.labels.size() * dataset.sample_bytes());
  if (!dataset.labels.empty()) {
    dataset.classes = *std::max_element(dataset.labels.begin(), dataset.labels.end()) + 1;
  }
  return dataset;
}

std::int64_t Dataset::tokens() const {
  FEDQUEUE_ASSERT(input.tokens);
  return static_cast<std::int64_t>(values.size() / tensor::size_of(dtype));
}

std::int64_t Dataset::samples() const {
  if (!input.tokens) return static_cast<std::int64_t>(labels.size());
  return tokens() == 0 ? 0 : (tokens() - 1) / input.elements();
}

std::size_t Dataset::sample_bytes() const {
  return static_cast<std::size_t>(input.elements()) * tensor::size_of(dtype);
}

std::vector<std::int64_t> Dataset::histogram() const {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes), 0);
  for (const std::int32_t label : labels) ++counts[static_cast<std::size_t>(label)];
  return counts;
}

Dataset Dataset::subset(std::span<const std::int64_t> indices) const {
  FEDQUEUE_ASSERT(!input.tokens && !source);
  Dataset part;
  part.input = input;
  part.dtype = dtype;
  part.classes = classes;
  auto kept = std::make_shared<std::vector<std::byte>>();
  kept->reserve(indices.size() * sample_bytes());
  part.labels.reserve(indices.size());
  for (const std::int64_t index : indices) {
    FEDQUEUE_ASSERT(index >= 0 && index < samples());
    kept->insert(kept->end(), sample(index), sample(index) + sample_bytes());
    part.labels.push_back(labels[static_cast<std::size_t>(index)]);
  }
  part.values = *kept;
  part.owner = std::move(kept);
  return part;
}

Dataset Dataset::stretch(std::int64_t begin, std::int64_t end) const {
  FEDQUEUE_ASSERT(0 <= begin && begin <= end && end <= tokens());
  const std::size_t width = tensor::size_of(dtype);
  Dataset part = *this;
  part.values = values.subspan(static_cast<std::size_t>(begin) * width,
                               static_cast<std::size_t>(end - begin) * width);
  return part;
}

Status Dataset::cut_for(const InputShape& model_input) {
  if (!input.tokens || !model_input.tokens) return {};
  if (tokens() <= model_input.elements()) {
    return Error{Code::data,
                 "cut the dataset for the model: " + std::to_string(tokens()) +
                     " tokens are not one sample of " + model_input.text() +
                     " and the token after it",
                 "Use a longer text, or a model with a shorter context."};
  }
  input = model_input;
  return {};
}

std::string Dataset::text() const {
  return std::to_string(classes) + (input.tokens ? " words in " : " classes of ") + input.text();
}

Batch gather(const Dataset& dataset, std::span<const std::int64_t> indices) {
  FEDQUEUE_ASSERT(!dataset.source);
  if (dataset.mapped) announce(dataset, indices);
  if (dataset.input.tokens) return gather_tokens(dataset, indices);
  Batch batch = empty_batch(dataset, indices);
  std::byte* out = batch.values.data();
  for (const std::int64_t index : indices) {
    std::memcpy(out, dataset.sample(index), dataset.sample_bytes());
    out += dataset.sample_bytes();
  }
  return batch;
}

Batch gather(const Dataset& dataset, std::int64_t begin, std::int64_t end) {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(end - begin));
  std::iota(indices.begin(), indices.end(), begin);
  return gather(dataset, indices);
}

Result<Batch> read_batch(const Dataset& dataset, std::span<const std::int64_t> indices) {
  Batch batch;
  if (dataset.source) {
    batch = empty_batch(dataset, indices);
    if (Status status = dataset.source->read(indices, batch.values); !status) return status.error();
  } else {
    batch = gather(dataset, indices);
  }
  if (Status status = check_values(dataset, batch, indices); !status) return status.error();
  return batch;
}

}  // namespace fedqueue
