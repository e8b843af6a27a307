// The little of SQLite that the registry needs, with owners and with errors as Result.
//
// Not thread-safe: the registry holds a lock around every use.
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/base/result.h"

namespace fedqueue::sqlite {

struct Close {
  void operator()(sqlite3* database) const { sqlite3_close_v2(database); }
};
struct Finalize {
  void operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }
};
using Database = std::unique_ptr<sqlite3, Close>;

// An SQLite failure: storage_full when the disk is, try_again when another process kept the file
// locked, storage otherwise.
[[nodiscard]] Error failure(sqlite3* database, const std::string& attempted);

// Opens or makes the file (mode 0600) with write-ahead log, full synchronisation and a busy
// timeout.
[[nodiscard]] Result<Database> open(const std::filesystem::path& path);

Status execute(sqlite3* database, const std::string& sql);

// A prepared statement that is reset by every use.
class Statement {
 public:
  static Result<Statement> prepare(sqlite3* database, const char* sql);

  // Starts a new use; values are bound from the first parameter on.
  Statement& restart();
  Statement& bind(const std::string& text);
  Statement& bind(std::int64_t number);

  // True if there is a row to read.
  Result<bool> step(const std::string& attempted);
  // Steps to the end and releases the read lock.
  Status finish(const std::string& attempted);

  [[nodiscard]] std::string text(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] bool null(int column) const;
  [[nodiscard]] int rows_changed() const;

 private:
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}
  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
  int bound_ = 0;
};

// Takes the write lock at once, and rolls back unless committed.
class Transaction {
 public:
  static Result<Transaction> begin(sqlite3* database);
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();
  Status commit();

 private:
  explicit Transaction(sqlite3* database) : database_(database) {}
  sqlite3* database_;
};

}  // namespace fedqueue::sqlite
