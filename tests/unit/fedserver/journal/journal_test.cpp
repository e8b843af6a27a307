// The journal keeps whole transactions in order, through kills and through misuse.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "core/base/prng.h"
#include "fedserver/journal/sqlite_journal.h"

namespace fedqueue {
namespace {

class JournalTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "journal-XXXXXX").string();
    folder = ::mkdtemp(name.data());
    file = folder / "journal.sqlite";
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::unique_ptr<SqliteJournal> open() {
    Result<std::unique_ptr<SqliteJournal>> journal = SqliteJournal::open(file);
    EXPECT_TRUE(journal) << (journal ? "" : journal.error().message);
    return journal ? std::move(*journal) : nullptr;
  }

  static std::vector<JournalRow> rows_from(std::int64_t first, int count) {
    std::vector<JournalRow> rows;
    for (int i = 0; i < count; ++i) {
      const std::int64_t sequence = first + i;
      rows.push_back({sequence, from_micros(sequence * 10), "kind-" + std::to_string(sequence % 3),
                      "{\"n\":" + std::to_string(sequence) + "}"});
    }
    return rows;
  }

  std::filesystem::path folder;
  std::filesystem::path file;
};

TEST_F(JournalTest, GivesBackWhatWasAppended) {
  ASSERT_TRUE(open()->append(rows_from(1, 5)));
  const auto journal = open();
  const auto rows = journal->rows(2, 2);
  ASSERT_TRUE(rows);
  ASSERT_EQ(rows->size(), 2u);
  EXPECT_EQ((*rows)[0].sequence, 3);
  EXPECT_EQ((*rows)[0].text, "{\"n\":3}");
  EXPECT_EQ((*rows)[0].kind, "kind-0");
  EXPECT_EQ(to_micros((*rows)[1].at), 40);
  EXPECT_EQ(to_micros(*journal->uptime()), 50);
}

TEST_F(JournalTest, KeepsAllRowsOfACallOrNone) {
  const auto journal = open();
  ASSERT_TRUE(journal->append(rows_from(1, 3)));
  std::vector<JournalRow> clash = rows_from(4, 2);
  clash.push_back(rows_from(1, 1)[0]);  // this sequence is taken
  EXPECT_FALSE(journal->append(clash));
  EXPECT_EQ(journal->rows(0, 100)->size(), 3u);
  EXPECT_TRUE(journal->append(rows_from(4, 2))) << "and goes on after the failure";
}

// `fedserver status` may look into a run while `fedserver run` makes its journal.
TEST_F(JournalTest, ManyMayFindTheFileNewAtTheSameTime) {
  for (int round = 0; round < 20; ++round) {
    file = folder / ("new-" + std::to_string(round));
    std::vector<std::thread> openers;
    for (int i = 0; i < 4; ++i) openers.emplace_back([this] { EXPECT_NE(open(), nullptr); });
    for (std::thread& opener : openers) opener.join();
    EXPECT_TRUE(open()->append(rows_from(1, 2)));
  }
}

TEST_F(JournalTest, UptimeNeverGoesBack) {
  const auto journal = open();
  ASSERT_TRUE(journal->note_uptime(from_micros(100)));
  ASSERT_TRUE(journal->note_uptime(from_micros(40)));
  EXPECT_EQ(to_micros(*journal->uptime()), 100);
}

TEST_F(JournalTest, AKilledWriterLeavesWhatItAcknowledged) {
  Prng prng(3);
  std::int64_t acknowledged = 0;
  for (int life = 0; life < 10; ++life) {
    int pipe_ends[2];
    ASSERT_EQ(::pipe(pipe_ends), 0);
    const pid_t child = ::fork();
    if (child == 0) {
      const auto journal = SqliteJournal::open(file);
      std::int64_t next = acknowledged + 1;
      // A transaction that was durable but not acknowledged may be there already.
      for (const auto rows = (*journal)->rows(acknowledged, 1000); const JournalRow& row : *rows) {
        next = row.sequence + 1;
      }
      for (;;) {
        if (!(*journal)->append(rows_from(next, 3))) ::_exit(1);
        next += 3;
        const std::int64_t last = next - 1;
        if (::write(pipe_ends[1], &last, sizeof last) != sizeof last) ::_exit(2);
      }
    }
    ::close(pipe_ends[1]);
    // Kill it after a number of acknowledgements, at whatever it is doing then.
    std::int64_t last = 0;
    for (std::uint64_t i = 0; i <= prng.below(20); ++i) {
      ASSERT_EQ(::read(pipe_ends[0], &last, sizeof last), static_cast<ssize_t>(sizeof last));
    }
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    while (::read(pipe_ends[0], &last, sizeof last) == static_cast<ssize_t>(sizeof last)) {
    }
    ::close(pipe_ends[0]);
    acknowledged = last;
    const auto rows = open()->rows(0, 100000);
    ASSERT_TRUE(rows);
    EXPECT_GE(static_cast<std::int64_t>(rows->size()), acknowledged);
    EXPECT_EQ(rows->size() % 3, 0u) << "transactions are whole";
    for (std::size_t i = 0; i < rows->size(); ++i) {
      ASSERT_EQ((*rows)[i].sequence, static_cast<std::int64_t>(i) + 1);
    }
  }
}

TEST_F(JournalTest, RefusesADatabaseOfAnotherProgram) {
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "CREATE TABLE x(y); PRAGMA user_version=1;", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  const auto journal = SqliteJournal::open(file);
  ASSERT_FALSE(journal);
  EXPECT_NE(journal.error().message.find("another program"), std::string::npos);
}

TEST_F(JournalTest, RefusesANewerSchema) {
  { open(); }
  sqlite3* database = nullptr;
  ASSERT_EQ(sqlite3_open(file.c_str(), &database), SQLITE_OK);
  sqlite3_exec(database, "PRAGMA user_version=99;", nullptr, nullptr, nullptr);
  sqlite3_close(database);
  const auto journal = SqliteJournal::open(file);
  ASSERT_FALSE(journal);
  EXPECT_EQ(journal.error().code, Code::journal);
  EXPECT_NE(journal.error().message.find("99"), std::string::npos);
}

TEST_F(JournalTest, RefusesAFileThatIsNoDatabase) {
  std::ofstream(file) << std::string(4096, 'x');
  const auto journal = SqliteJournal::open(file);
  ASSERT_FALSE(journal);
  EXPECT_NE(journal.error().message.find("journal.sqlite"), std::string::npos);
}

}  // namespace
}  // namespace fedqueue
