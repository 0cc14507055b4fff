// One of CuTe's tutorials (TUTORIAL: the name of its file) as the whole program that it is: it allocates, launches and
// compares by itself.
#define main tutorial_main
#include TUTORIAL
#undef main

extern "C" int run() {
  char name[] = "tutorial";
  char* arguments[] = {name, nullptr};
  return tutorial_main(1, arguments);
}
