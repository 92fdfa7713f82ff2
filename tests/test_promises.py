"""What the library promises never to get silently wrong, and the tests that hold each promise.

A promise is kept where its subject is tested; this page says where that is.
"""

import ast
from functools import cache
from pathlib import Path

import pytest

TESTS = Path(__file__).parent

PROMISES = {
    # Results
    "the prior counts the same for every batch, whatever remains for the last": [
        "training/test_prior_strength.py::test_one_item_more_than_full_batches_costs_no_accuracy",
        "training/test_prior_strength.py::test_every_batch_has_the_weight_of_a_full_one",
        "distributed/test_equality.py::test_two_processes_end_with_the_weights_and_the_history_of_one",
        "training/test_loop.py::test_validation_after_an_epoch_leaves_no_trace_in_the_training",
        "objectives/test_weight.py::test_a_smaller_last_batch_has_the_weight_of_a_full_one",
        "objectives/test_weight.py::test_accumulated_gradients_are_those_of_one_large_batch",
        "objectives/test_weight.py::test_a_large_weight_on_the_batch_is_warned_of_once",
    ],
    "models that should be random are": [
        "models/test_attention.py::test_draws_of_a_transformer_are_distributed_as_in_its_training",
        "models/test_attention.py::test_dropout_inside_attention_acts_in_draws_with_its_rate",
        "models/test_attention.py::test_inserted_dropout_reaches_the_inputs_of_attention_once",
        "models/test_attention.py::test_a_mask_per_draw_is_refused_where_nothing_could_share_it",
        "models/test_attention.py::test_rank1_shares_the_projections_of_attention",
        "models/test_attention.py::test_rank1_refuses_networks_that_merge_or_move_the_batch",
        "models/test_attention.py::test_rank1_refuses_a_moved_batch_that_is_as_long_as_the_sequences",
        "models/test_wrapping.py::test_networks_that_were_compiled_and_run_get_their_dropout",
        "models/test_base.py::test_draws_that_agree_exactly_warn_once_in_evaluation",
    ],
    "a network cannot tell points elsewhere from data by their normalisation": [
        "objectives/test_forward.py::test_batch_and_points_see_the_same_draws_in_one_pass",
        "objectives/test_forward.py::"
        "test_points_by_themselves_leave_no_trace_in_batch_normalisation",
    ],
    "layers that a user froze stay frozen, and every module gets its mode back": [
        "training/test_loop.py::test_layers_frozen_by_the_user_stay_frozen",
        "training/test_loop.py::test_modes_come_back_after_an_error_too",
        "training/test_finetune.py::test_layers_frozen_by_the_user_stay_frozen",
        "models/test_modes.py::test_parts_frozen_on_purpose_stay_frozen",
        "evaluation/test_predict.py::test_every_part_gets_its_mode_back_also_after_an_error",
    ],
    "predictions in float32 have the precision of float64": [
        "evaluation/test_predict.py::test_float32_has_the_precision_of_float64",
        "evaluation/test_predict.py::"
        "test_without_smoothing_what_underflows_in_float32_still_counts",
    ],
    "the objective in float32 is exact for any number of data": [
        "fused/test_kl.py::test_fused_and_plain_agree",
        "fused/test_kl.py::test_plain_is_exact",
    ],
    "without smoothing, what is finite by definition is computed": [
        "objectives/test_function_space.py::"
        "test_without_smoothing_one_draw_is_exact_where_float32_underflows",
        "objectives/test_function_space.py::test_saturated_draws_have_finite_losses_and_gradients",
    ],
    "outputs and points of another shape are refused": [
        "objectives/test_likelihood.py::test_more_rows_than_inputs_are_refused",
        "objectives/test_checks.py::test_a_batch_without_items_is_refused",
        "objectives/test_forward.py::test_logits_of_another_shape_are_refused",
        "objectives/test_terms.py::test_points_that_do_not_fit_are_refused",
        "measurement/test_checks.py::test_points_that_do_not_fit_are_refused",
        "models/test_conformance_inputs.py::test_outputs_that_are_no_logits_are_refused",
        "evaluation/test_predict.py::test_outputs_that_are_no_logits_are_refused",
        "evaluation/test_predict.py::test_draws_of_another_shape_are_refused",
    ],
    "nothing is cached that can change": [
        "objectives/test_likelihood.py::test_the_loss_is_the_expected_nll_and_nothing_else",
        "objectives/test_function_space.py::test_what_is_changed_counts_at_once",
        "priors/test_constant.py::test_a_change_counts_from_the_next_call_on_however_it_is_made",
        "priors/test_classifier.py::test_every_call_asks_again_and_settings_may_change",
        "priors/test_classifier.py::test_a_refitted_estimator_counts_at_once",
        "priors/test_constant.py::test_the_concentration_is_a_copy_of_what_was_given",
        "priors/test_constant.py::test_nobody_changes_a_prior_through_what_it_returned",
        "measurement/test_grid.py::test_an_integer_batch_does_not_collapse_the_grid",
        "measurement/test_grid.py::test_a_floating_batch_lends_its_dtype_and_nobody_moves_the_grid",
    ],
    "inputs stay as they are, though a network or a function works in place": [
        "models/test_conformance_inputs.py::"
        "test_a_network_that_overwrites_its_input_sees_it_in_every_draw",
        "models/test_conformance_inputs.py::test_networks_of_a_list_that_overwrite_their_input",
        "measurement/test_base.py::test_a_function_that_works_in_place_leaves_the_batch_alone",
        "training/test_loop.py::test_augmentation_in_place_leaves_the_data_alone",
    ],
    "modes of torch and threads change nothing": [
        "objectives/test_torch_modes.py::test_inference_mode",
        "priors/test_classifier.py::test_works_in_every_mode_of_torch",
        "priors/test_constant.py::test_a_prior_made_in_inference_mode_can_be_trained_with",
        "evaluation/test_predict.py::test_inference_mode_changes_nothing",
        "evaluation/test_predict.py::test_narrow_products_of_float32_are_no_obstacle",
        "evaluation/test_predict.py::test_seeded_predictions_in_threads_do_not_disturb_each_other",
        "training/test_loop.py::test_seeded_trainings_in_two_threads_do_not_disturb_each_other",
        "test_random.py::test_blocks_of_different_threads_run_one_after_another",
    ],
    "a training that was interrupted ends as one that was not": [
        "training/test_resume.py::test_a_process_that_is_killed_at_any_instant",
        "training/test_resume.py::test_every_kind_of_model",
        "training/test_resume.py::test_every_optimiser",
        "training/test_resume.py::test_lbfgs",
        "training/test_resume.py::test_every_schedule",
        "training/test_resume.py::test_every_measurement_set",
        "training/test_resume.py::test_every_loader",
        "training/test_resume.py::test_early_stopping_and_best_weights",
        "training/test_resume.py::test_a_signal_finishes_the_step_and_saves",
        "training/test_resume.py::test_a_full_disk_leaves_the_last_good_checkpoint",
        "training/test_resume.py::test_a_damaged_checkpoint_is_reported_and_the_one_before_is_used",
        "training/test_resume.py::test_a_training_of_other_settings_is_refused",
        "training/test_resume.py::test_a_second_training_in_the_folder_is_refused",
    ],
    "a training that diverges keeps the last good weights": [
        "training/test_step.py::test_a_gradient_that_is_not_finite_leaves_the_last_good_weights",
        "training/test_step.py::test_the_last_step_of_all_leaves_the_last_good_weights_too",
        "training/test_step.py::test_the_term_and_the_suspect_are_named",
    ],
    "all errors have one base": [
        "test_errors.py::test_all_derive_from_one_base_and_from_a_built_in",
    ],
    "NaN is refused before it does harm": [
        "evaluation/test_predict.py::test_a_prediction_that_is_not_finite_names_its_input",
        "training/test_step.py::test_a_bad_input_changes_neither_weights_nor_statistics",
        "training/test_step.py::test_weights_that_the_last_step_ruined_are_noticed",
        "objectives/test_function_space.py::test_misfits_are_refused_before_anything_changes",
        "objectives/test_function_space.py::test_impossible_settings_are_refused",
        "evaluation/test_metrics.py::test_what_is_no_prediction_or_no_label_is_refused",
    ],
    "the columns of a classifier as prior follow its classes": [
        "priors/test_classifier.py::test_columns_are_put_in_the_order_of_the_labels",
        "priors/test_classifier.py::test_labels_of_any_kind_in_the_order_that_is_given",
        "priors/test_classifier.py::"
        "test_labels_that_are_no_whole_numbers_are_refused_without_their_order",
    ],
    "studies survive damaged, copied and unfinished files": [
        "paper/test_runner.py::test_a_damaged_cell_is_named_and_made_anew",
        "paper/test_cells.py::test_a_damaged_file_is_named",
        "paper/test_runner.py::test_a_copied_cell_is_no_row_of_another_model",
        "paper/test_runner.py::test_a_table_is_never_half_written",
        "paper/test_runner.py::test_left_over_parts_are_removed",
        "paper/test_runner.py::test_one_process_gives_the_number_of_threads_back",
        "paper/test_runner.py::test_a_folder_that_cannot_be_written_is_found_before_anything_runs",
        "report/test_style.py::test_backend_and_settings_stay_and_pyplot_is_not_needed",
    ],
    "only absent data files skip a test": [
        "test_skips.py::test_skips_fail_unless_data_are_absent",
        "test_skips.py::test_a_module_that_skips_itself_fails",
        "test_makefile.py::"
        "test_what_the_laplace_packages_need_is_installed_though_they_come_without_it",
        "models/test_laplace.py::test_what_is_missing_is_named",
        "models/test_laplace.py::test_a_residual_network_is_linearised_where_its_statistics_stand",
    ],
    "files of others cannot reach beyond their data": [
        "data/test_cifar.py::test_arrays_of_anything_but_bytes_are_never_made",
        "data/test_cifar.py::test_nothing_of_numpy_can_be_called",
        "data/test_archive.py::test_a_link_under_the_name_of_the_part_is_not_followed",
        "data/test_download.py::test_a_link_under_the_name_of_the_part_is_not_followed",
        "data/test_registry.py::test_mirrors_are_asked_over_https",
    ],
    "single draws show no epistemic uncertainty": [
        "evaluation/test_prediction.py::test_a_single_draw_shows_no_epistemic_uncertainty",
        "evaluation/test_predict.py::test_models_of_one_function_show_no_epistemic_uncertainty",
    ],
    "a state dict says its kind": [
        "models/test_base.py::test_state_of_another_kind_is_refused",
        "models/test_base.py::test_state_of_other_settings_is_refused",
    ],
    # What works, or is refused in words that help before a weight moves
    "plain networks": [
        "training/test_checks.py::test_plain_networks",
        "models/test_wrapping.py::test_an_ensemble_takes_a_function_that_builds_networks",
        "evaluation/test_predict.py::test_refuses_networks_that_do_not_fit_together",
    ],
    "arrays and DataFrames": [
        "training/test_checks.py::test_arrays_frames_and_lists_train_as_tensors",
        "evaluation/test_predict.py::test_every_form_of_inputs_gives_what_the_tensor_gives",
        "evaluation/test_metrics.py::test_predictions_arrays_and_labels_of_any_integer_type",
    ],
    "ready optimisers": [
        "training/test_loop.py::test_loaders_and_datasets_train_as_a_loop_by_hand",
        "training/test_checks.py::test_optimisers_of_the_original_network",
    ],
    "scores of a prediction": [
        "evaluation/test_metrics.py::test_predictions_arrays_and_labels_of_any_integer_type",
    ],
    "networks that end in a softmax": [
        "models/test_wrapping.py::test_networks_that_end_in_probabilities_are_refused",
        "models/test_base.py::test_probabilities_as_outputs_are_refused",
        "models/test_base.py::test_a_hidden_softmax_is_refused_before_a_weight_moves",
        "models/test_base.py::test_logits_that_hardly_depend_on_the_input_may_sum_to_one",
        "evaluation/test_predict.py::test_a_network_in_a_list_that_gives_probabilities_is_refused",
    ],
    "a last batch of one": [
        "training/test_checks.py::test_a_last_batch_of_one_under_batch_normalisation",
        "training/test_checks.py::test_a_last_batch_of_one_where_it_does_not_come_alone",
        "training/test_checks.py::test_a_last_batch_of_one_where_it_has_more_than_one_pixel",
    ],
    "fine-tuning the last layer with a number of draws": [
        "training/test_finetune.py::test_last_layer_of_models_made_from_the_network",
        "training/test_finetune.py::"
        "test_last_layer_of_a_rank_1_model_with_every_item_for_every_member",
    ],
    "averaged and compiled models": [
        "evaluation/test_predict.py::test_averaged_and_compiled_models_predict_as_the_model",
        "training/test_wrapped.py::test_compiled_models_train_as_the_model",
    ],
    "missing data on the command line": [
        "cli/test_errors.py::test_missing_data_are_one_message",
        "paper/test_runner.py::test_missing_data_are_found_before_anything_runs",
    ],
    "inputs in tuples and dicts, outputs with logits": [
        "training/test_structures.py::test_every_structure_trains_and_predicts_as_one_tensor",
        "training/test_structures.py::test_every_structure_is_fine_tuned_as_one_tensor",
        "training/test_structures.py::test_objectives",
        "models/test_conformance_inputs.py::test_inputs_of_any_structure_are_the_same_function",
        "models/test_laplace.py::test_batches_that_are_dicts_give_the_posterior_of_pairs",
    ],
    "a quick import": [
        "test_import.py::test_importing_felbo_is_quick_and_leaves_heavy_packages_alone",
        "test_import.py::test_help_needs_no_experiments_and_less_than_three_seconds",
    ],
}


@cache
def functions(file):
    """Return the names of the test functions in a file, without importing it."""
    tree = ast.parse((TESTS / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("promise", PROMISES)
def test_a_promise_has_its_tests(promise):
    assert PROMISES[promise]
    for test in PROMISES[promise]:
        file, name = test.split("::")
        assert (TESTS / file).exists(), f"{file} is gone"
        assert name in functions(file), f"{file} has no {name}"
        assert name.startswith("test_")
