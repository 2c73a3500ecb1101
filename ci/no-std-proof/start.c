/* Just enough of a program to link the library into. */
unsigned long long zcore_proof(unsigned long long input);

int main(int count, char **arguments) {
    (void)arguments;
    return (int)(zcore_proof((unsigned long long)count) & 0x7f);
}
