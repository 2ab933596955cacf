"""How far a build is, told from its output."""

from apexlab.build.display import Display
from apexlab.build.progress import Tracker

OUTPUT = (
    (0.0, "running build_ext"),
    (1.0, "building 'apex_C' extension"),
    (4.0, "[1/1] /x/g++ -c flatten.cpp"),
    (5.0, "building '_amp_C' extension"),
    (6.0, "[1/2] /x/nvcc -c a.cu"),
    (9.0, "a.cu(3): warning #177-D: [2/2] is not a file"),
    (9.5, "[2/2] /x/g++ -c b.cpp"),
    (11.0, "installing to build/bdist.linux-x86_64/wheel"),
)


def test_extensions_files_and_seconds():
    tracker = Tracker(13)
    shown = [text for now, line in OUTPUT if (text := tracker.feed(line, now))]
    assert shown == [
        "[1/13] apex_C", "[1/13] apex_C: 1 of 1 files", "[2/13] amp_C",
        "[2/13] amp_C: 1 of 2 files", "[2/13] amp_C: 2 of 2 files", "packing"]
    assert tracker.seconds == {"apex_C": 4.0, "amp_C": 6.0}


def test_more_extensions_than_expected_never_read_three_of_two():
    tracker = Tracker(1)
    for name in ("a", "b", "c"):
        tracker.feed(f"building '{name}' extension", 0.0)
    assert tracker.text == "[3/3] c"


def test_plain_lines_where_there_is_no_terminal(capsys):
    with Display("compile", terminal=False) as display:
        display.line("[2/2] amp_C: 2 of 2 files")
    out, err = capsys.readouterr()
    assert out == ""
    assert err == "  0:00 [2/2] amp_C: 2 of 2 files\n"


def test_a_terminal_gets_one_live_line_and_the_output_of_a_failed_step_stays(capsys):
    with Display("compile", terminal=True) as display:
        display.line("[2/2] amp_C: 2 of 2 files")
        display.line("| [error] it broke")
    err = capsys.readouterr().err
    assert "0:00 [2/2]" not in err
    assert "| [error] it broke" in err
