#include <cstdio>

#include "array/processors.h"

int main(int, char** paths) { std::printf("%d", halfulp::processors_of_groups(paths[1], paths[2])); }
