/** What a state's colour says. */
export type Tone = 'good' | 'busy' | 'warn' | 'bad' | 'quiet';
