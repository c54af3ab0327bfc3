<?php

namespace Greeting;

final class Hello
{
    public static function say(): string
    {
        return mb_convert_case("hello", MB_CASE_TITLE);
    }
}
