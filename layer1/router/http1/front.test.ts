import { frontConformance } from '../front-conformance.ts';

frontConformance('fast');
