#include "simulation/world/disk.h"

#include <algorithm>
#include <set>
#include <utility>

namespace fedqueue::simulation {

namespace fs = std::filesystem;
using Operation = DiskFaults::Operation;

// An open file: of the disk's, until the process that opened it ends.
class SimulatedFile : public DiskFile {
 public:
  SimulatedFile(SimulatedDisk& disk, std::shared_ptr<SimulatedDisk::Inode> inode, std::string path)
      : disk_(disk), inode_(std::move(inode)), path_(std::move(path)) {}

  Result<std::size_t> read_at(std::uint64_t offset, std::span<std::byte> bytes) override {
    const Bytes& content = *inode_->content;
    if (offset >= content.size()) return std::size_t{0};
    const std::size_t count = std::min<std::size_t>(bytes.size(), content.size() - offset);
    std::copy_n(content.begin() + static_cast<std::ptrdiff_t>(offset), count, bytes.begin());
    return count;
  }
  Result<std::size_t> write_at(std::uint64_t offset, std::span<const std::byte> bytes) override {
    return disk_.write(*inode_, path_, offset, bytes);
  }
  Status sync() override { return disk_.sync(*inode_, path_); }

 private:
  SimulatedDisk& disk_;
  std::shared_ptr<SimulatedDisk::Inode> inode_;
  std::string path_;
};

SimulatedDisk::SimulatedDisk(Clock& clock, Mortal& owner, DiskFaults* faults)
    : clock_(clock), owner_(owner), faults_(faults) {}

Status SimulatedDisk::begin(Operation operation, const std::string& path, DiskFate& fate) {
  if (owner_.dead()) return Error{Code::storage, "use '" + path + "': the process has ended", ""};
  if (faults_ == nullptr) return {};
  fate = faults_->fate(operation, path);
  if (fate.die_before) owner_.die("before an operation on '" + path + "'");
  if (fate.fail) return Error{*fate.fail, "use '" + path + "': the disk refuses", ""};
  return {};
}

void SimulatedDisk::finish(const DiskFate& fate, const std::string& path) {
  if (fate.die_after) owner_.die("after an operation on '" + path + "'");
}

std::shared_ptr<SimulatedDisk::Inode> SimulatedDisk::find(const Names& names,
                                                          const fs::path& path) const {
  const auto folder = names.find(path.parent_path().string());
  if (folder == names.end()) return nullptr;
  const auto entry = folder->second.find(path.filename().string());
  return entry == folder->second.end() ? nullptr : entry->second;
}

std::vector<std::string> SimulatedDisk::names(const fs::path& folder) const {
  std::vector<std::string> found;
  const auto entries = names_.find(folder.string());
  if (entries == names_.end()) return found;
  for (const auto& [name, inode] : entries->second) found.push_back(name);
  return found;
}

Result<std::unique_ptr<DiskFile>> SimulatedDisk::open(const fs::path& path, Mode mode) {
  DiskFate fate;
  if (Status begun = begin(Operation::open, path.string(), fate); !begun) return begun.error();
  std::shared_ptr<Inode> inode = find(names_, path);
  if (!inode) {
    if (mode == Mode::read) {
      return Error{Code::storage, "open '" + path.string() + "': it does not exist", ""};
    }
    inode = std::make_shared<Inode>();
    inode->written_at = clock_.now();
    names_[path.parent_path().string()][path.filename().string()] = inode;
  } else if (mode == Mode::replace) {
    inode->content = std::make_shared<Bytes>();
    inode->written_at = clock_.now();
  }
  finish(fate, path.string());
  return std::unique_ptr<DiskFile>(
      std::make_unique<SimulatedFile>(*this, std::move(inode), path.string()));
}

Result<std::size_t> SimulatedDisk::write(Inode& inode, const std::string& path,
                                         std::uint64_t offset, std::span<const std::byte> bytes) {
  DiskFate fate;
  if (Status begun = begin(Operation::write, path, fate); !begun) return begun.error();
  std::size_t count = bytes.size();
  if (fate.bytes_most) count = std::clamp<std::size_t>(*fate.bytes_most, 1, count);
  if (capacity_ > 0) {
    const std::uint64_t now_used = used();
    const std::uint64_t room = now_used < capacity_ ? capacity_ - now_used : 0;
    if (room == 0) {
      return Error{Code::storage_full, "write '" + path + "': no space left on device", ""};
    }
    count = static_cast<std::size_t>(std::min<std::uint64_t>(count, room));
  }
  // The medium may share the bytes: they are its own from the first change on.
  if (inode.content.use_count() > 1) inode.content = std::make_shared<Bytes>(*inode.content);
  Bytes& content = *inode.content;
  if (content.size() < offset + count) content.resize(offset + count);
  std::copy_n(bytes.begin(), count, content.begin() + static_cast<std::ptrdiff_t>(offset));
  inode.written_at = clock_.now();
  finish(fate, path);
  return count;
}

Status SimulatedDisk::sync(Inode& inode, const std::string& path) {
  DiskFate fate;
  if (Status begun = begin(Operation::sync, path, fate); !begun) return begun;
  inode.durable = inode.content;
  finish(fate, path);
  return {};
}

Status SimulatedDisk::make_directories(const fs::path& path) {
  names_[path.string()];
  durable_names_[path.string()];
  return {};
}

Status SimulatedDisk::rename(const fs::path& from, const fs::path& to) {
  DiskFate fate;
  if (Status begun = begin(Operation::rename, from.string(), fate); !begun) return begun;
  std::shared_ptr<Inode> inode = find(names_, from);
  if (!inode) {
    return Error{Code::storage, "rename '" + from.string() + "': it does not exist", ""};
  }
  names_[from.parent_path().string()].erase(from.filename().string());
  names_[to.parent_path().string()][to.filename().string()] = std::move(inode);
  finish(fate, from.string());
  return {};
}

Status SimulatedDisk::remove(const fs::path& path) {
  DiskFate fate;
  if (Status begun = begin(Operation::remove, path.string(), fate); !begun) return begun;
  names_[path.parent_path().string()].erase(path.filename().string());
  finish(fate, path.string());
  return {};
}

Status SimulatedDisk::link(const std::string& target, const fs::path& path) {
  DiskFate fate;
  if (Status begun = begin(Operation::link, path.string(), fate); !begun) return begun;
  if (find(names_, path)) {
    return Error{Code::storage, "link '" + path.string() + "': the name is taken", ""};
  }
  const auto text = std::as_bytes(std::span(target.data(), target.size()));
  auto inode = std::make_shared<Inode>();
  inode->is_link = true;
  inode->content = std::make_shared<Bytes>(text.begin(), text.end());
  inode->durable = inode->content;
  names_[path.parent_path().string()][path.filename().string()] = std::move(inode);
  finish(fate, path.string());
  return {};
}

Status SimulatedDisk::sync_directory(const fs::path& path) {
  DiskFate fate;
  if (Status begun = begin(Operation::sync_directory, path.string(), fate); !begun) return begun;
  durable_names_[path.string()] = names_[path.string()];
  finish(fate, path.string());
  return {};
}

Result<std::optional<std::uint64_t>> SimulatedDisk::bytes(const fs::path& path) {
  const std::shared_ptr<Inode> inode = find(names_, path);
  if (!inode) return std::optional<std::uint64_t>();
  return std::optional<std::uint64_t>(inode->content->size());
}

Result<std::vector<Disk::Entry>> SimulatedDisk::list(const fs::path& path) {
  std::vector<Entry> entries;
  for (const auto& [name, inode] : names_[path.string()]) {
    entries.push_back(
        {name, inode->is_link ? 0 : inode->content->size(), clock_.now() - inode->written_at});
  }
  return entries;
}

std::uint64_t SimulatedDisk::used() const {
  std::uint64_t bytes = 0;
  for (const auto& [folder, names] : names_) {
    for (const auto& [name, inode] : names) bytes += inode->content->size();
  }
  return bytes;
}

Result<std::uint64_t> SimulatedDisk::free_bytes(const fs::path&) {
  if (capacity_ == 0) return std::uint64_t{1} << 50;
  const std::uint64_t now_used = used();
  return now_used < capacity_ ? capacity_ - now_used : 0;
}

void SimulatedDisk::put(const fs::path& path, Bytes content) {
  auto inode = std::make_shared<Inode>();
  inode->content = std::make_shared<Bytes>(std::move(content));
  inode->durable = inode->content;
  names_[path.parent_path().string()][path.filename().string()] = inode;
  durable_names_[path.parent_path().string()][path.filename().string()] = std::move(inode);
}

Result<SharedBytes> SimulatedDisk::read(const fs::path& path) {
  DiskFate fate;
  if (Status begun = begin(Operation::read, path.string(), fate); !begun) return begun.error();
  finish(fate, path.string());
  if (SharedBytes whole = content(path)) return whole;
  return Error{Code::storage, "read '" + path.string() + "': it does not exist", ""};
}

SharedBytes SimulatedDisk::content(const fs::path& path) const {
  const std::shared_ptr<Inode> inode = find(names_, path);
  return inode ? inode->content : nullptr;
}

SharedBytes SimulatedDisk::durable_content(const fs::path& path) const {
  const std::shared_ptr<Inode> inode = find(durable_names_, path);
  return inode ? inode->durable : nullptr;
}

void SimulatedDisk::power_failure(Prng& random) {
  for (auto& [path, folder] : names_) {
    const Folder& durable = durable_names_[path];
    Folder left = durable;
    // Each change of a name that was not synced may have reached the medium all the same.
    std::set<std::string> names;
    for (const auto& [name, inode] : folder) names.insert(name);
    for (const auto& [name, inode] : durable) names.insert(name);
    for (const std::string& name : names) {
      const auto now = folder.find(name);
      const auto then = durable.find(name);
      const bool same = now != folder.end() && then != durable.end() && now->second == then->second;
      if (same || random.uniform() < 0.5) continue;
      if (now == folder.end()) {
        left.erase(name);
      } else {
        left[name] = now->second;
      }
    }
    folder = std::move(left);
  }
  durable_names_ = names_;
  for (auto& [path, folder] : names_) {
    for (auto& [name, inode] : folder) {
      // A file under two names is torn once.
      if (inode->content == inode->durable) continue;
      auto torn = std::make_shared<Bytes>(*inode->durable);
      const std::size_t length = inode->content->size();
      const double luck = random.uniform();
      if (luck < 0.25 && torn->size() < length) {
        const std::size_t kept = torn->size() + random.below(length - torn->size() + 1);
        torn->assign(inode->content->begin(),
                     inode->content->begin() + static_cast<std::ptrdiff_t>(kept));
      } else if (luck < 0.5 && torn->size() < length) {
        torn->resize(length);  // the length arrived, its bytes did not
      }
      inode->content = torn;
      inode->durable = torn;
    }
  }
}

}  // namespace fedqueue::simulation
