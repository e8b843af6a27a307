#include "aggregation/reduce/source.h"

#include <fcntl.h>

#include "core/tensor/file.h"

namespace fedqueue {

Result<Source> Source::open(const std::filesystem::path& path, const tensor::Manifest& model,
                            const std::string& role, bool keep_open) {
  Result<tensor::Reader> reader = tensor::Reader::open(path);
  if (!reader) return within("reduce the " + role, reader.error());
  const tensor::Manifest& manifest = reader->manifest();
  const std::vector<std::string> sentences = differences(model, manifest);
  if (!sentences.empty()) {
    return Error{Code::model_mismatch,
                 "reduce the " + role + " '" + path.string() +
                     "': its structure is not the model's: " + tensor::summary(sentences),
                 "Every facility must train the model the run was started with."};
  }

  Source source;
  source.path_ = path;
  source.model_ = &model;
  source.data_begin_ = manifest.header_bytes;
  const auto index = manifest.index();
  bool same_places = true;
  for (const tensor::TensorInfo& tensor : model.tensors) {
    source.places_.push_back(manifest.tensors[index.at(tensor.name)].begin);
    same_places = same_places && source.places_.back() == tensor.begin;
  }
  if (same_places) source.places_ = {};
  if (keep_open) source.fd_ = std::move(*reader).take_descriptor();
  return source;
}

Status Source::read_bytes(std::uint64_t data_offset, std::span<std::byte> out) const {
  const std::uint64_t offset = data_begin_ + data_offset;
  if (fd_) return tensor::read_at(fd_.get(), offset, out, path_);
  const Result<FileDescriptor> fd = open_file(path_, O_RDONLY);
  if (!fd) return fd.error();
  return tensor::read_at(fd->get(), offset, out, path_);
}

Status Source::read_item(const Plan& plan, const Item& item, std::span<std::byte> out) const {
  if (places_.empty()) return read_bytes(item.begin, out.first(item.bytes));
  for (const Segment& segment : plan.segments_of(item)) {
    const tensor::TensorInfo& tensor = model_->tensors[segment.tensor];
    const auto part = out.subspan(segment.item_offset, segment.elements * size_of(tensor.dtype));
    if (Status done = read(tensor, segment.tensor, segment.first, part); !done) return done;
  }
  return {};
}

Status Source::read(const tensor::TensorInfo& tensor, std::size_t tensor_index,
                    std::uint64_t first_element, std::span<std::byte> out) const {
  const std::uint64_t place = places_.empty() ? tensor.begin : places_[tensor_index];
  return read_bytes(place + first_element * size_of(tensor.dtype), out);
}

}  // namespace fedqueue
