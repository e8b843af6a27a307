#include "aggregation/reduce/source.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/tensor/file.h"

namespace fedqueue {
namespace {

#ifdef MADV_POPULATE_READ
constexpr int populate_read = MADV_POPULATE_READ;
#else
constexpr int populate_read = 22;
#endif

const std::uint64_t page_bytes = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

}  // namespace

Result<Source> Source::open(const std::filesystem::path& path, const tensor::Manifest& model,
                            const std::string& role, bool map) {
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
  source.file_bytes_ = manifest.file_bytes();
  const auto index = manifest.index();
  bool same_places = true;
  for (const tensor::TensorInfo& tensor : model.tensors) {
    source.places_.push_back(manifest.tensors[index.at(tensor.name)].begin);
    same_places = same_places && source.places_.back() == tensor.begin;
  }
  if (same_places) source.places_ = {};
  source.fd_ = std::move(*reader).take_descriptor();
  if (map) source.map(source.file_bytes_);
  return source;
}

Source::Source(Source&& other) noexcept
    : path_(std::move(other.path_)),
      fd_(std::move(other.fd_)),
      mapping_(std::exchange(other.mapping_, nullptr)),
      file_bytes_(other.file_bytes_),
      data_begin_(other.data_begin_),
      model_(other.model_),
      places_(std::move(other.places_)) {}

Source::~Source() {
  if (mapping_ != nullptr) ::munmap(mapping_, file_bytes_);
}

void Source::map(std::uint64_t bytes) {
  void* const address = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd_.get(), 0);
  if (address == MAP_FAILED) return;  // not every file system can
  if (::madvise(address, std::min(bytes, page_bytes), populate_read) != 0) {
    ::munmap(address, bytes);
    return;
  }
  mapping_ = static_cast<std::byte*>(address);
  fd_.reset();  // a mapping stands by itself; many updates would otherwise need many descriptors
}

std::uint64_t Source::place_of(const tensor::TensorInfo& tensor, std::size_t tensor_index) const {
  return data_begin_ + (places_.empty() ? tensor.begin : places_[tensor_index]);
}

Status Source::make_present(std::uint64_t offset, std::size_t bytes) const {
  const std::uint64_t begin = offset / page_bytes * page_bytes;
  const std::uint64_t end = offset + bytes;
  while (::madvise(mapping_ + begin, end - begin, populate_read) != 0) {
    if (errno == EINTR || errno == EAGAIN) continue;
    return storage_error("read '" + path_.string() + "'", errno == EFAULT ? EIO : errno);
  }
  return {};
}

Status Source::copy(std::uint64_t offset, std::span<std::byte> out) const {
  if (mapping_ == nullptr) return tensor::read_at(fd_.get(), offset, out, path_);
  if (out.empty()) return {};
  if (Status present = make_present(offset, out.size()); !present) return present;
  std::memcpy(out.data(), mapping_ + offset, out.size());
  return {};
}

Result<const std::byte*> Source::view(const Plan& plan, const Item& item,
                                      std::span<std::byte> buffer) const {
  if (places_.empty()) {
    const std::uint64_t offset = data_begin_ + item.begin;
    if (mapping_ != nullptr) {
      if (Status present = make_present(offset, item.bytes); !present) return present.error();
      return static_cast<const std::byte*>(mapping_ + offset);
    }
    if (Status copied = copy(offset, buffer.first(item.bytes)); !copied) return copied.error();
    return static_cast<const std::byte*>(buffer.data());
  }
  for (const Segment& segment : plan.segments_of(item)) {
    const tensor::TensorInfo& tensor = model_->tensors[segment.tensor];
    const std::size_t element = size_of(tensor.dtype);
    const auto out = buffer.subspan(segment.item_offset, segment.elements * element);
    if (Status copied = read(tensor, segment.tensor, segment.first, out); !copied) {
      return copied.error();
    }
  }
  return static_cast<const std::byte*>(buffer.data());
}

Status Source::read(const tensor::TensorInfo& tensor, std::size_t tensor_index,
                    std::uint64_t first_element, std::span<std::byte> out) const {
  return copy(place_of(tensor, tensor_index) + first_element * size_of(tensor.dtype), out);
}

void Source::release(std::uint64_t data_begin, std::uint64_t data_end) const {
  if (mapping_ == nullptr) return;
  std::uint64_t begin = 0;
  std::uint64_t end = file_bytes_;
  if (places_.empty()) {
    begin = (data_begin_ + data_begin) / page_bytes * page_bytes;
    end = std::min(file_bytes_, (data_begin_ + data_end) / page_bytes * page_bytes);
  }
  if (end > begin) ::madvise(mapping_ + begin, end - begin, MADV_DONTNEED);
}

}  // namespace fedqueue
