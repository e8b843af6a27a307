// Events come out the same however the bytes are cut.
#include "fedclient/link/event_stream.h"

#include <gtest/gtest.h>

namespace fedqueue {
namespace {

std::vector<ServerEvent> fed(EventStream& stream, const std::string& text) {
  return stream.feed(std::as_bytes(std::span(text.data(), text.size())));
}

TEST(EventStream, ReadsFieldsCommentsAndLongData) {
  EventStream stream;
  const std::vector<ServerEvent> events = fed(
      stream, ": hello\r\nid: 4\r\nevent: counted\r\ndata: {\"a\":\r\ndata:1}\r\n\r\nid: 5\n\n");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].id, 4);
  EXPECT_EQ(events[0].kind, "counted");
  EXPECT_EQ(events[0].data, "{\"a\":\n1}");
}

TEST(EventStream, DoesNotCareWhereTheBytesAreCut) {
  const std::string text = "id: 1\r\ndata: one\r\n\r\nid: 2\ndata: two\n\nid: 3\rdata: three\r\r";
  for (std::size_t cut = 0; cut <= text.size(); ++cut) {
    EventStream stream;
    std::vector<ServerEvent> events = fed(stream, text.substr(0, cut));
    for (ServerEvent& event : fed(stream, text.substr(cut))) events.push_back(event);
    ASSERT_EQ(events.size(), 3u) << cut;
    EXPECT_EQ(events[1].data, "two");
    EXPECT_EQ(events[2].id, 3);
  }
}

}  // namespace
}  // namespace fedqueue
