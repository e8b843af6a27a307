// The journal in SQLite: one row per fact, in the order in which they happened.
//
// Promises: rows are durable when append() returns (WAL, synchronous=FULL), all of one call or
// none; a database of a newer schema, on a network file system, or of another program is refused
// with the reason. docs/durability.md describes the tables.
//
// Thread safety: one connection; calls are serialised by a mutex, so that an event stream may read
// rows while the driver appends.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>

#include "fedserver/driver/driver.h"

struct sqlite3;

namespace fedqueue {

class SqliteJournal : public Journal {
 public:
  static Result<std::unique_ptr<SqliteJournal>> open(const std::filesystem::path& file);
  ~SqliteJournal() override;

  Result<std::vector<JournalRow>> rows(std::int64_t after, std::size_t limit) override;
  Status append(std::span<const JournalRow> rows) override;
  Result<Instant> uptime() override;
  Status note_uptime(Instant now) override;

 private:
  SqliteJournal(sqlite3* database, std::filesystem::path file);
  Status prepare();
  Status prepare_once();
  Status create_tables();
  Result<std::int64_t> number(const char* sql) const;
  Status execute(const char* sql, const char* attempted);
  Error fault(const std::string& attempted) const;

  sqlite3* database_;
  std::filesystem::path file_;
  std::mutex mutex_;
};

// The name of the network file system the path is on ("lustre", "nfs", …), or empty. SQLite's locks
// and write-ahead log are not reliable there.
[[nodiscard]] std::string network_file_system(const std::filesystem::path& path);

}  // namespace fedqueue
