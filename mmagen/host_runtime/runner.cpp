// Loads a generated library beside the stand-in for the CUDA runtime and calls its functions as the command line says.
//
//   runner LIBRARY DIRECTIVE...           every function that the library uses has to be there
//   runner -program LIBRARY DIRECTIVE...  those that it calls
//
//   device MAJOR MINOR MULTIPROCESSORS SHARED_BYTES     the device that the runtime shows
//   driver VERSION                                      what cudaDriverGetVersion answers; 0: there is no driver
//   resident CLUSTERS                                   what cudaOccupancyMaxActiveClusters answers
//   current DEVICE                                      the device that is current from now on, 0 at first, and that directives
//                                                       are about; one that is new is as device 0
//   reset                                               the current device is reset: attributes of kernels are gone
//   kernel NAME THREADS SHARED_BYTES COUNT (OFFSET SIZE)...
//                                                       of a PTX entry: .maxntid (0: none), static shared memory, parameters
//   memory FIRST END                                    device addresses of the caller; see memory.cpp
//   streams DEVICE                                      the device that streams are of; the current one if not said
//   foreign ADDRESS DEVICE                              memory of another device, of the host where DEVICE is negative
//   fail FUNCTION CODE                                  FUNCTION returns this cudaError_t from now on
//   pending CODE                                        an error that somebody else has left behind
//   thread                                              the next call comes from a thread of its own
//   call SYMBOL COUNT ARGUMENT...                       an int function; an argument is a number, or @ and the bytes that a
//                                                       pointer argument points to, in hexadecimal
//   text SYMBOL COUNT ARGUMENT...                       the same for a function that returns a string; ? as an argument is
//                                                       what the last call returned
//   main COUNT WORD...                                  calls int main(int, char**) with argv = {"main", WORD...}
//   capture                                             streams are being captured, as far as they are asked
//
// Printed, one line each: launches and refusals as they come (cuda_runtime.cpp); after a call, "bytes ARGUMENT HEX" for
// each pointer argument and "returned VALUE left ERROR"; "text STRING". The library's own output goes to
// stderr. Exit code 2: a directive that makes no sense, 3: a library that does not load or lacks a function.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <thread>

#include "state.h"

using namespace mmagen_host;

namespace {

[[noreturn]] void stop(int code, char const* what, char const* which) {
  std::fflush(state().out);
  std::fprintf(stderr, "%s: %s\n", what, which);
  std::_Exit(code);
}

class Words {
 public:
  Words(int count, char** words) : next_(words), end_(words + count) {}
  bool empty() const { return next_ == end_; }
  char* word() {
    if (empty()) { stop(2, "runner", "the last directive lacks a word"); }
    return *next_++;
  }
  long long number() {
    char const* const text = word();
    char* end = nullptr;
    unsigned long long const value = std::strtoull(text, &end, 10);
    if (end == text || *end != '\0') { stop(2, "not a number", text); }
    return static_cast<long long>(value);
  }

 private:
  char **next_, **end_;
};

/// The arguments of one call as machine words. What pointers point to lies here, aligned to 16 bytes.
class Arguments {
 public:
  Arguments(Words& words, int last_value) {
    count_ = int(words.number());
    if (count_ < 0 || count_ > kMost) { stop(2, "runner", "a call takes 0 to 6 arguments"); }
    for (int i = 0; i < count_; ++i) {
      char const* const text = words.word();
      if (text[0] == '@') {
        values[i] = reinterpret_cast<intptr_t>(bytes_of(text + 1));
        pointers_[i] = std::strlen(text + 1) / 2;
      } else {
        values[i] = text[0] == '?' ? last_value : intptr_t(std::strtoull(text, nullptr, 10));
      }
    }
  }
  void print() const {
    for (int i = 0; i < count_; ++i) {
      if (pointers_[i] == 0) { continue; }
      std::fprintf(state().out, "bytes %d ", i);
      auto const* const bytes = reinterpret_cast<unsigned char const*>(values[i]);
      for (size_t at = 0; at < pointers_[i]; ++at) { std::fprintf(state().out, "%02x", bytes[at]); }
      std::fputc('\n', state().out);
    }
  }

  static constexpr int kMost = 6;
  intptr_t values[kMost] = {};

 private:
  static void* bytes_of(char const* hex) {
    size_t const size = std::strlen(hex) / 2;
    auto* const bytes = static_cast<unsigned char*>(std::aligned_alloc(16, (size + 16) / 16 * 16));
    for (size_t i = 0; i < size; ++i) {
      char const pair[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
      bytes[i] = static_cast<unsigned char>(std::strtoul(pair, nullptr, 16));
    }
    return bytes;
  }

  size_t pointers_[kMost] = {};
  int count_ = 0;
};

void* function_called(void* library, char const* symbol) {
  void* const function = dlsym(library, symbol);
  if (function == nullptr) { stop(3, "the library has no function", symbol); }
  return function;
}

/// Overwrites the stack that the next call uses: what the library leaves uninitialized is then the same in every run, and no
/// value of this program.
[[gnu::noinline]] void poison_stack() {
  unsigned char below[1 << 16];
  std::memset(below, 0xd5, sizeof below);
  asm volatile("" : : "r"(below) : "memory");  // or else nobody reads it, and it is not written
}

template <class Result>
Result call(void* function, Arguments const& arguments) {
  poison_stack();
  // A C function takes its first six words in registers on every 64-bit ABI that CUDA has; it does not look at others.
  using Function = Result (*)(intptr_t, intptr_t, intptr_t, intptr_t, intptr_t, intptr_t);
  auto const& v = arguments.values;
  return reinterpret_cast<Function>(function)(v[0], v[1], v[2], v[3], v[4], v[5]);
}

void declare_kernel(Words& words) {
  std::string const name = words.word();
  Kernel& kernel = state().kernels[name];
  kernel.name = name;
  kernel.in_ptx = true;
  int const threads = int(words.number());
  if (threads > 0) { kernel.most_threads = threads; }
  kernel.static_shared_bytes = int(words.number());
  long long const count = words.number();
  for (long long i = 0; i < count; ++i) {
    size_t const offset = size_t(words.number());
    kernel.parameters.push_back({offset, size_t(words.number())});
  }
}

bool in_main = false;

void print_returned(int value) { std::fprintf(state().out, "returned %d left %d\n", value, int(last_error)); }

/// Main may also call exit().
void at_exit(int code, void*) {
  if (in_main) { print_returned(code); }
}

int call_main(void* function, Words& words) {
  static char name[] = "main";
  std::vector<char*> given = {name};
  for (long long left = words.number(); left > 0; --left) { given.push_back(words.word()); }
  given.push_back(nullptr);
  on_exit(at_exit, nullptr);
  poison_stack();
  in_main = true;
  int const value = reinterpret_cast<int (*)(int, char**)>(function)(int(given.size()) - 1, given.data());
  in_main = false;
  return value;
}

void obey(Words& words, void* library) {
  int last_value = 0;
  bool apart = false;
  while (!words.empty()) {
    std::string const verb = words.word();
    if (verb == "device") {
      Device& device = state().device();
      for (int* field : {&device.major, &device.minor, &device.multiprocessors, &device.most_shared_bytes}) {
        *field = int(words.number());
      }
    } else if (verb == "driver") {
      state().driver_version = int(words.number());
    } else if (verb == "resident") {
      state().device().resident_clusters = int(words.number());
    } else if (verb == "current") {
      state().current = int(words.number());
      state().devices.try_emplace(state().current, state().devices[0]);
    } else if (verb == "reset") {
      for (auto& [name, kernel] : state().kernels) { kernel.of_device.erase(state().current); }
    } else if (verb == "kernel") {
      declare_kernel(words);
    } else if (verb == "memory") {
      state().has_memory = has_context = true;  // whoever has memory has a context
      state().device_first = static_cast<unsigned long long>(words.number());
      state().device_end = static_cast<unsigned long long>(words.number());
    } else if (verb == "streams") {
      state().device_of_streams = int(words.number());
    } else if (verb == "capture") {
      state().capturing = true;
    } else if (verb == "foreign") {
      state().foreign = reinterpret_cast<void*>(words.number());
      state().foreign_device = int(words.number());
    } else if (verb == "fail") {
      std::string const function = words.word();
      state().failures[function] = int(words.number());
    } else if (verb == "pending") {
      last_error = cudaError_t(words.number());
    } else if (verb == "thread") {
      apart = true;
    } else if (verb == "text") {
      void* const function = function_called(library, words.word());
      std::fprintf(state().out, "text %s\n", call<char const*>(function, Arguments(words, last_value)));
    } else if (verb == "main") {
      last_value = call_main(function_called(library, "main"), words);
      print_returned(last_value);
    } else if (verb == "call") {
      void* const function = function_called(library, words.word());
      Arguments const arguments(words, last_value);
      int left = 0;
      auto const run = [&] {
        last_value = call<int>(function, arguments);
        left = int(last_error);
      };
      if (apart) {
        std::thread(run).join();
      } else {
        run();
      }
      apart = false;
      arguments.print();
      std::fprintf(state().out, "returned %d left %d\n", last_value, left);
    } else {
      stop(2, "no such directive", verb.c_str());
    }
  }
}

}  // namespace

int main(int count, char** words) {
  // The library may print; what the caller reads must not be mixed with it.
  state().out = fdopen(dup(STDOUT_FILENO), "w");
  setvbuf(state().out, nullptr, _IOLBF, 1 << 16);  // what was printed before a crash is read
  dup2(STDERR_FILENO, STDOUT_FILENO);
  bool const program = count > 1 && std::strcmp(words[1], "-program") == 0;
  if (program) { --count, ++words; }
  if (count < 2) { stop(2, "runner", "no library"); }
  void* const library = dlopen(words[1], (program ? RTLD_LAZY : RTLD_NOW) | RTLD_LOCAL);
  if (library == nullptr) { stop(3, "the library does not load", dlerror()); }
  Words rest(count - 2, words + 2);
  obey(rest, library);
  return 0;
}
