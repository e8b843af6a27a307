#include "fedclient/trainer/control_variates.h"

#include <fcntl.h>
#include <sys/file.h>

#include <algorithm>
#include <string>

#include "core/base/file.h"
#include "core/base/text.h"

namespace fedqueue {
namespace {

namespace fs = std::filesystem;

// Metadata of own.safetensors: the pending updates that are in it, should they still lie there.
constexpr const char* taken_in_key = "fedqueue.taken_in";

// Reads the control variates of a file of which they may be a part.
Result<std::vector<float>> read_controls(const tensor::Reader& reader,
                                         const tensor::Manifest& layout) {
  tensor::Manifest got = reader.manifest();
  std::erase_if(got.tensors, [](const tensor::TensorInfo& tensor) { return !is_control(tensor); });
  if (const auto different = tensor::differences(layout, got); !different.empty()) {
    return Error{Code::model_mismatch,
                 "read control variates from '" + reader.path().string() +
                     "': they are of another model: " + tensor::summary(different),
                 "If the run was begun anew with another model, remove this folder."};
  }
  std::vector<float> values(layout.data_bytes / sizeof(float));
  const auto index = got.index();
  for (const tensor::TensorInfo& info : layout.tensors) {
    const auto part = std::span(values).subspan(info.begin / sizeof(float), info.elements());
    if (Status read =
            reader.read_tensor(got.tensors[index.at(info.name)], std::as_writable_bytes(part));
        !read) {
      return read.error();
    }
  }
  return values;
}

struct Own {
  std::vector<float> values;
  std::vector<std::string> taken_in;
};

Result<Own> read_own(const fs::path& file, const tensor::Manifest& layout) {
  Own own;
  std::error_code missing;
  if (!fs::exists(file, missing)) {
    own.values.resize(layout.data_bytes / sizeof(float));
    return own;
  }
  Result<tensor::Reader> reader = tensor::Reader::open(file);
  if (!reader) return reader.error();
  Result<std::vector<float>> values = read_controls(*reader, layout);
  if (!values) return values.error();
  own.values = std::move(*values);
  const auto& metadata = reader->manifest().metadata;
  if (const auto names = metadata.find(taken_in_key); names != metadata.end()) {
    own.taken_in = split(names->second, ',');
  }
  return own;
}

Status write_own(const fs::path& file, tensor::Manifest layout, const Own& own) {
  layout.metadata[taken_in_key] = join(own.taken_in, ",");
  Result<tensor::Writer> writer =
      tensor::Writer::create(file.string() + ".unfinished", std::move(layout));
  if (!writer) return writer.error();
  if (Status written = writer->write(std::as_bytes(std::span(own.values))); !written) {
    return written;
  }
  if (Result<tensor::WrittenFile> finished = writer->finish(); !finished) return finished.error();
  return writer->commit(file);
}

std::vector<fs::path> list_pending(const fs::path& directory) {
  std::vector<fs::path> found;
  std::error_code failed;
  fs::directory_iterator entries(directory / "pending", failed);
  for (; !failed && entries != fs::directory_iterator(); entries.increment(failed)) {
    if (entries->path().extension() == ".safetensors") found.push_back(entries->path());
  }
  std::sort(found.begin(), found.end());
  return found;
}

// Jobs of one facility may overlap at a hand-over. A file system without locks leaves it at that.
Result<FileDescriptor> lock(const fs::path& directory) {
  Result<FileDescriptor> fd = open_file(directory / "lock", O_RDWR | O_CREAT);
  if (fd) (void)::flock(fd->get(), LOCK_EX);
  return fd;
}

}  // namespace

Result<std::vector<float>> load_own_controls(const fs::path& directory,
                                             const tensor::Manifest& layout) {
  std::error_code failed;
  fs::create_directories(directory, failed);
  if (failed)
    return storage_error("make the directory '" + directory.string() + "'", failed.value());
  const Result<FileDescriptor> held = lock(directory);
  if (!held) return held.error();
  const fs::path file = directory / "own.safetensors";
  Result<Own> own = read_own(file, layout);
  if (!own) return own.error();
  const std::vector<fs::path> pending = list_pending(directory);
  std::vector<std::string> taken_in;
  for (const fs::path& update : pending) {
    taken_in.push_back(update.stem().string());
    const auto& before = own->taken_in;
    if (std::find(before.begin(), before.end(), taken_in.back()) != before.end()) continue;
    const Result<tensor::Reader> reader = tensor::Reader::open(update);
    if (!reader) return reader.error();
    const Result<std::vector<float>> difference = read_controls(*reader, layout);
    if (!difference) return difference.error();
    for (std::size_t i = 0; i < own->values.size(); ++i) own->values[i] += (*difference)[i];
  }
  if (pending.empty()) return std::move(own->values);
  own->taken_in = std::move(taken_in);
  if (Status written = write_own(file, layout, *own); !written) return written.error();
  for (const fs::path& update : pending) fs::remove(update, failed);
  return std::move(own->values);
}

Result<ControlVariates> ControlVariates::load(const tensor::Reader& model,
                                              const tensor::Manifest& network,
                                              const fs::path& own_directory) {
  ControlVariates controls;
  Result<tensor::Manifest> layout = tensor::controls_of(network);
  if (!layout) return layout.error();
  controls.layout_ = std::move(*layout);
  Result<std::vector<float>> server = read_controls(model, controls.layout_);
  if (!server) return server.error();
  controls.server_ = std::move(*server);
  controls.correction_ = controls.server_;
  if (own_directory.empty()) return controls;
  const Result<std::vector<float>> own = load_own_controls(own_directory, controls.layout_);
  if (!own) return own.error();
  for (std::size_t i = 0; i < own->size(); ++i) controls.correction_[i] -= (*own)[i];
  return controls;
}

Result<tensor::ControlledUpdate> ControlVariates::attach(const tensor::Manifest& network,
                                                         std::span<const std::byte> delta,
                                                         double learning_rate_sum) const {
  return tensor::attach_controls(network, delta, server_, learning_rate_sum);
}

}  // namespace fedqueue
