#include "fedclient/trainer/model_file.h"

#include <cmath>
#include <cstring>

#include "core/tensor/file.h"

namespace fedqueue {

Result<tensor::Manifest> read_manifest(const std::filesystem::path& path) {
  Result<tensor::Reader> reader = tensor::Reader::open(path);
  if (!reader) return reader.error();
  return reader->manifest();
}

Result<std::vector<std::byte>> read_state(const std::filesystem::path& path,
                                          const tensor::Manifest& expected) {
  Result<tensor::Reader> reader = tensor::Reader::open(path);
  if (!reader) return reader.error();
  tensor::Manifest model = reader->manifest();
  // Control variates travel with the model but are no part of the network.
  std::erase_if(model.tensors, tensor::is_control);
  const std::vector<std::string> different = tensor::differences(expected, model);
  if (!different.empty()) {
    return Error{Code::model_mismatch,
                 "load model " + path.string() +
                     ": it does not fit the architecture: " + tensor::summary(different),
                 "Train with the model the run was started with (--model)."};
  }
  std::vector<std::byte> state(expected.data_bytes);
  const auto index = model.index();
  for (const tensor::TensorInfo& info : expected.tensors) {
    const tensor::TensorInfo& source = model.tensors[index.at(info.name)];
    const std::span<std::byte> target(state.data() + info.begin, info.bytes());
    if (Status status = reader->read_tensor(source, target); !status) return status.error();
  }
  return state;
}

Result<std::size_t> read_matching(const std::filesystem::path& path, const tensor::Manifest& layout,
                                  std::span<std::byte> state) {
  Result<tensor::Reader> reader = tensor::Reader::open(path);
  if (!reader) return reader.error();
  const auto index = layout.index();
  std::size_t taken = 0;
  for (const tensor::TensorInfo& source : reader->manifest().tensors) {
    const auto found = index.find(source.name);
    if (found == index.end()) continue;
    const tensor::TensorInfo& target = layout.tensors[found->second];
    if (source.dtype != target.dtype || source.shape != target.shape) {
      return Error{Code::model_mismatch,
                   "take over weights from " + path.string() + ": " + source.name +
                       " has another shape or type than in the model",
                   "Leave this tensor out of the file; what the file lacks begins anew."};
    }
    if (Status status = reader->read_tensor(source, state.subspan(target.begin, target.bytes()));
        !status)
      return status.error();
    ++taken;
  }
  if (taken == 0) {
    return Error{
        Code::model_mismatch,
        "take over weights from " + path.string() + ": no tensor has a name of the model's",
        "Save the state_dict of the same model, with the names that PyTorch gives."};
  }
  return taken;
}

Status write_state(const std::filesystem::path& path, const tensor::Manifest& layout,
                   std::span<const std::byte> state) {
  std::filesystem::path unfinished = path;
  unfinished += ".unfinished";
  Result<tensor::Writer> writer = tensor::Writer::create(unfinished, layout);
  if (!writer) return writer.error();
  if (Status status = writer->write(state); !status) return status;
  if (Result<tensor::WrittenFile> written = writer->finish(); !written) return written.error();
  return writer->commit(path);
}

Status subtract_base(const tensor::Manifest& layout, std::span<const std::byte> base,
                     std::span<std::byte> state) {
  FEDQUEUE_ASSERT(base.size() == layout.data_bytes && state.size() == layout.data_bytes);
  for (const tensor::TensorInfo& info : layout.tensors) {
    if (info.dtype != tensor::DType::f32) continue;  // counters travel as they are
    bool finite = true;
    for (std::uint64_t at = info.begin; at < info.end; at += sizeof(float)) {
      float now = 0;
      float before = 0;
      std::memcpy(&now, state.data() + at, sizeof now);
      std::memcpy(&before, base.data() + at, sizeof before);
      now -= before;
      finite = finite && std::isfinite(now);
      std::memcpy(state.data() + at, &now, sizeof now);
    }
    if (!finite) {
      return Error{Code::not_finite,
                   "write the update: tensor " + info.name + " holds a value that is not finite",
                   "Lower the learning rate (lr_base) or add warm-up steps."};
    }
  }
  return {};
}

}  // namespace fedqueue
