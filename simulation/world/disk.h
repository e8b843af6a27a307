// A disk in memory that forgets, as a real one does, what was not synced.
//
// A write reaches the file at once and the medium at its sync; a name reaches its folder at once
// and the medium at the folder's sync. power_failure() leaves what the medium has, and of the rest
// whatever chance keeps: some bytes, zeros of the right length, or nothing. The end of a process
// alone loses nothing.
//
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/prng.h"
#include "fedserver/blobs/disk.h"
#include "simulation/clock/clock.h"
#include "simulation/world/bytes.h"
#include "simulation/world/mortal.h"

namespace fedqueue::simulation {

// What is to become of one operation.
struct DiskFate {
  bool die_before = false;  // the process ends and nothing was done
  bool die_after = false;   // it was done and the process ends
  std::optional<Code> fail;
  std::optional<std::size_t> bytes_most;  // of a write
};

class DiskFaults {
 public:
  enum class Operation { open, read, write, sync, rename, remove, link, sync_directory };
  virtual ~DiskFaults() = default;
  virtual DiskFate fate(Operation operation, const std::string& path) = 0;
};

class SimulatedDisk : public Disk {
 public:
  // `owner` is the process that uses the disk; `faults` may be empty. Both outlive the disk.
  SimulatedDisk(Clock& clock, Mortal& owner, DiskFaults* faults = nullptr);

  // 0: without end.
  void set_capacity(std::uint64_t bytes) { capacity_ = bytes; }
  // What is left after it, see above.
  void power_failure(Prng& random);

  // For models that a world brings along, and for checks. Durable at once.
  void put(const std::filesystem::path& path, Bytes content);
  // A whole file as the process reads it.
  Result<SharedBytes> read(const std::filesystem::path& path);
  [[nodiscard]] SharedBytes content(const std::filesystem::path& path) const;
  // Of the files in a folder, as a process sees them.
  [[nodiscard]] std::vector<std::string> names(const std::filesystem::path& folder) const;
  // The bytes of the file that would be there after a power failure in which chance keeps nothing.
  [[nodiscard]] SharedBytes durable_content(const std::filesystem::path& path) const;

  Result<std::unique_ptr<DiskFile>> open(const std::filesystem::path& path, Mode mode) override;
  Status make_directories(const std::filesystem::path& path) override;
  Status rename(const std::filesystem::path& from, const std::filesystem::path& to) override;
  Status remove(const std::filesystem::path& path) override;
  Status link(const std::string& target, const std::filesystem::path& path) override;
  Status sync_directory(const std::filesystem::path& path) override;
  Result<std::optional<std::uint64_t>> bytes(const std::filesystem::path& path) override;
  Result<std::vector<Entry>> list(const std::filesystem::path& path) override;
  Result<std::uint64_t> free_bytes(const std::filesystem::path& path) override;

 private:
  friend class SimulatedFile;
  struct Inode {
    std::shared_ptr<Bytes> content = std::make_shared<Bytes>();
    std::shared_ptr<const Bytes> durable = std::make_shared<Bytes>();
    Instant written_at{};
    bool is_link = false;
  };
  // Folder → name → file.
  using Folder = std::map<std::string, std::shared_ptr<Inode>>;
  using Names = std::map<std::string, Folder>;

  // Ends the process, fails, or lets the operation happen; `after` is called when it did.
  Status begin(DiskFaults::Operation operation, const std::string& path, DiskFate& fate);
  void finish(const DiskFate& fate, const std::string& path);
  [[nodiscard]] std::shared_ptr<Inode> find(const Names& names,
                                            const std::filesystem::path& path) const;
  Result<std::size_t> write(Inode& inode, const std::string& path, std::uint64_t offset,
                            std::span<const std::byte> bytes);
  Status sync(Inode& inode, const std::string& path);
  [[nodiscard]] std::uint64_t used() const;

  Clock& clock_;
  Mortal& owner_;
  DiskFaults* faults_;
  std::uint64_t capacity_ = 0;
  Names names_;
  Names durable_names_;
};

}  // namespace fedqueue::simulation
