// Streams that are captured, and graphs, of the CUDA runtime. A graph is the text of the lines that its work would have
// printed, in the order of submission, which is one of those that its edges allow; launching it prints them.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "state.h"

using namespace mmagen_host;

namespace {

/// Of one stream, and of those that wait for an event of it.
class Capture {
 public:
  Capture(cudaStream_t origin, cudaStreamCaptureMode mode)
      : origin(origin), mode(mode), file_(open_memstream(&text_, &size_)) {}
  ~Capture() {
    std::fclose(file_);
    std::free(text_);
  }
  Capture(Capture const&) = delete;
  Capture& operator=(Capture const&) = delete;

  FILE* file() { return file_; }
  std::string text() {
    std::fflush(file_);
    return {text_, size_};
  }

  cudaStream_t const origin;
  cudaStreamCaptureMode const mode;
  bool invalidated = false;

 private:
  char* text_ = nullptr;
  size_t size_ = 0;
  FILE* file_;
};

std::map<cudaStream_t, std::shared_ptr<Capture>> captures;  // of streams
std::map<cudaEvent_t, std::weak_ptr<Capture>> recorded_in;  // of events
std::set<cudaStream_t> non_blocking;
thread_local cudaStreamCaptureMode mode_of_thread = cudaStreamCaptureModeGlobal;

Capture* capture_of(cudaStream_t stream) {
  auto const found = captures.find(stream);
  return found == captures.end() ? nullptr : found->second.get();
}

cudaError_t refuse_and_invalidate(Capture& capture, cudaError_t error, char const* function, char const* why) {
  capture.invalidated = true;
  return refuse(error, function, "%s", why);
}

}  // namespace

namespace mmagen_host {

FILE* output_for(cudaStream_t stream, char const* function) {
  if (Capture* const capture = capture_of(stream)) {
    if (!capture->invalidated) { return capture->file(); }
    refuse(cudaErrorStreamCaptureInvalidated, function, "an earlier call has invalidated the capture of this stream");
    return nullptr;
  }
  if (stream == nullptr || stream == cudaStreamLegacy) {
    for (auto const& [captured, capture] : captures) {
      if (non_blocking.count(captured) != 0) { continue; }
      refuse_and_invalidate(*capture, cudaErrorStreamCaptureImplicit, function,
                            "work on the legacy default stream would wait for a stream that is being captured");
      return nullptr;
    }
  }
  return state().out;
}

bool is_unsafe(char const* function) {
  if (mode_of_thread == cudaStreamCaptureModeRelaxed) { return false; }
  for (auto const& [stream, capture] : captures) {
    if (capture->mode == cudaStreamCaptureModeRelaxed) { continue; }
    refuse_and_invalidate(*capture, cudaErrorStreamCaptureUnsupported, function, "not while a stream is being captured");
    return true;
  }
  return false;
}

void add_non_blocking(cudaStream_t stream) { non_blocking.insert(stream); }

void invalidate_captures() {
  for (auto const& [stream, capture] : captures) { capture->invalidated = true; }
}

}  // namespace mmagen_host

extern "C" {

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  Capture const* const capture = capture_of(stream);
  *status = capture != nullptr && capture->invalidated ? cudaStreamCaptureStatusInvalidated
            : capture != nullptr || state().capturing  ? cudaStreamCaptureStatusActive
                                                       : cudaStreamCaptureStatusNone;
  return injected("cudaStreamIsCapturing");
}
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, mode_of_thread);
  return cudaSuccess;
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (stream == nullptr || stream == cudaStreamLegacy) {
    return refuse(cudaErrorStreamCaptureUnsupported, "cudaStreamBeginCapture", "the legacy default stream cannot be captured");
  }
  if (capture_of(stream) != nullptr) {
    return refuse(cudaErrorIllegalState, "cudaStreamBeginCapture", "this stream is already being captured");
  }
  captures[stream] = std::make_shared<Capture>(stream, mode);
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  auto const found = captures.find(stream);
  if (found == captures.end()) { return refuse(cudaErrorIllegalState, "cudaStreamEndCapture", "no capture began"); }
  if (found->second->origin != stream) {
    return refuse_and_invalidate(*found->second, cudaErrorStreamCaptureUnmatched, "cudaStreamEndCapture",
                                 "the capture began on another stream");
  }
  std::shared_ptr<Capture> const ended = found->second;
  for (auto at = captures.begin(); at != captures.end();) { at = at->second == ended ? captures.erase(at) : std::next(at); }
  if (ended->invalidated) {
    return refuse(cudaErrorStreamCaptureInvalidated, "cudaStreamEndCapture", "an earlier call has invalidated the capture");
  }
  *graph = reinterpret_cast<cudaGraph_t>(new std::string(ended->text()));
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  *executable = reinterpret_cast<cudaGraphExec_t>(new std::string(*reinterpret_cast<std::string*>(graph)));
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long flags) {
  return cudaGraphInstantiate(executable, graph, flags);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  FILE* const out = output_for(stream, "cudaGraphLaunch");
  if (out == nullptr) { return last_error; }
  std::fputs(reinterpret_cast<std::string*>(executable)->c_str(), out);
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete reinterpret_cast<std::string*>(graph);
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete reinterpret_cast<std::string*>(executable);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (Capture* const capture = capture_of(stream)) {
    return refuse_and_invalidate(*capture, cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize",
                                 "this stream is being captured");
  }
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  auto const found = captures.find(stream);
  if (found != captures.end()) {
    recorded_in[event] = found->second;
  } else {
    recorded_in.erase(event);
  }
  return cudaSuccess;
}
/// A stream that waits for an event of a captured one is captured with it.
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  auto const found = recorded_in.find(event);
  std::shared_ptr<Capture> const joined = found == recorded_in.end() ? nullptr : found->second.lock();
  if (joined != nullptr && capture_of(joined->origin) == joined.get()) { captures[stream] = joined; }
  return cudaSuccess;
}

}  // extern "C"
