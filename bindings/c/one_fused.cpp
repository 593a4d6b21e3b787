// The power of one double for processors with FMA, by which products of two doubles are exact.
#define HALFULP_ISA fused
#include "one_element.h"

double halfulp_fused_powd(double x, double y) { return halfulp::fused::power_of_doubles(x, y); }
